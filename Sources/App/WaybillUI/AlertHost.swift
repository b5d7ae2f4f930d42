/// Finds the view controller that can present an alert.
package enum AlertHost {
    /// The topmost controller presented over `root`; `nil` if an alert must wait.
    ///
    /// An alert waits while any controller in the chain is an alert or is being dismissed: anything presented over it
    /// would be dismissed with it.
    package static func topmost<Controller>(
        from root: Controller, presented: (Controller) -> Controller?, canHost: (Controller) -> Bool
    ) -> Controller? {
        var top = root
        while canHost(top) {
            guard let next = presented(top) else { return top }
            top = next
        }
        return nil
    }
}

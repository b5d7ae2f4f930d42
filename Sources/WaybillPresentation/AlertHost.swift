/// Finds the view controller that can present an alert.
package enum AlertHost {
    /// The topmost controller, however many are presented over `root`; `nil` when an alert must wait.
    ///
    /// It waits while any of them is unable to host it: what is presented over an alert, or over a controller that is
    /// being dismissed, is torn away with it.
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

#if canImport(UIKit) && !os(watchOS)
    public import UIKit

    extension UIViewController {
        /// Reports that this controller shows a screen; call it in `viewDidAppear(_:)`.
        ///
        ///     override func viewDidAppear(_ animated: Bool) {
        ///         super.viewDidAppear(animated)
        ///         self.screenAppeared(PlaylistScreen(songCount: 12), in: self.tracker)
        ///     }
        public func screenAppeared(_ event: some ScreenEvent, in tracker: ScreenTracker) {
            tracker.screenAppeared(event, on: self)
        }

        /// Reports that this controller shows a screen, with the controller's type; call it in `viewDidAppear(_:)`.
        public func screenAppeared(_ name: String, id: String? = nil, in tracker: ScreenTracker) {
            let type = String(describing: Swift.type(of: self))
            tracker.screenAppeared(ScreenViewed(ScreenRef(name, type: type, id: id)), on: self)
        }

        /// Reports that this controller is no longer visible; call it in `viewDidDisappear(_:)`.
        public func screenDisappeared(in tracker: ScreenTracker) {
            tracker.screenDisappeared(on: self)
        }
    }
#endif

#if canImport(UIKit) && !os(watchOS)
    public import UIKit

    /// Shows the events that it sees as alerts, over whatever the app shows.
    ///
    ///     waybill.observe(.only(AlertObserver(), PlaylistScreen.self))
    ///
    /// For debug builds. One alert at a time, in the order of the events; more than three that wait become one. An
    /// alert is presented on the topmost controller, however many are presented over one another; while that is an
    /// alert, or on its way in or out, it waits.
    @MainActor
    public final class AlertObserver: EventObserver {
        /// How long to wait before looking again whether an alert is gone, or can be presented.
        ///
        /// Short enough to seem immediate. UIKit tells nobody that an alert is gone when its presenter was dismissed
        /// under it, so a look from time to time is the one sign that never fails to come.
        private static let interval = Duration.milliseconds(250)

        /// The alerts that wait.
        public nonisolated let feed = AlertFeed()

        private let root: () -> UIViewController?
        private var showing: Task<Void, Never>?

        /// Shows alerts over the controller that `root` returns, or over what is presented there.
        public init(root: @escaping @MainActor () -> UIViewController?) {
            self.root = root
            let arrivals = self.feed.arrivals()
            self.showing = Task { [weak self] in
                for await _ in arrivals { await self?.showAll() }
            }
        }

        /// Shows alerts in the window that the user works in.
        @available(iOSApplicationExtension, unavailable, message: "Pass the extension's own controller as `root`.")
        @available(tvOSApplicationExtension, unavailable, message: "Pass the extension's own controller as `root`.")
        @available(visionOSApplicationExtension, unavailable, message: "Pass the extension's own controller as `root`.")
        public convenience init() {
            self.init {
                UIApplication.shared.connectedScenes
                    .filter { $0.activationState == .foregroundActive }
                    .compactMap { ($0 as? UIWindowScene)?.keyWindow?.rootViewController }
                    .first
            }
        }

        deinit {
            self.showing?.cancel()
        }

        /// Adds an alert for an event.
        public nonisolated func eventStored(_ event: EventView) {
            self.feed.eventStored(event)
        }

        private func showAll() async {
            while let alert = self.feed.next() {
                if let controller = self.present(alert) {
                    self.feed.presented()
                    while controller.presentingViewController != nil {
                        guard await self.pause() == .waited else { return }
                    }
                    self.feed.dismissed()
                } else {
                    guard await self.pause() == .waited else { return }
                }
            }
        }

        /// Presents an alert; `nil` when it cannot be presented now.
        private func present(_ alert: EventAlert) -> UIAlertController? {
            guard let root = self.root(),
                let host = AlertHost.topmost(from: root, presented: \.presentedViewController, canHost: Self.canHost)
            else { return nil }
            let controller = UIAlertController(
                title: alert.title, message: alert.message, preferredStyle: .alert)
            controller.addAction(UIAlertAction(title: "OK", style: .default))
            host.present(controller, animated: true)
            // UIKit refuses with a line in the log and nothing else.
            return controller.presentingViewController == nil ? nil : controller
        }

        private static func canHost(_ controller: UIViewController) -> Bool {
            !(controller is UIAlertController) && !controller.isBeingDismissed && !controller.isBeingPresented
        }

        private enum Pause {
            case waited
            case cancelled
        }

        private func pause() async -> Pause {
            do {
                try await Task.sleep(for: Self.interval)
                return .waited
            } catch {
                return .cancelled
            }
        }
    }
#endif

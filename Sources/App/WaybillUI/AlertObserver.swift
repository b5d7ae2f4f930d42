#if canImport(UIKit) && !os(watchOS)
    public import UIKit

    /// Shows observed events as alerts over the app's current view controller.
    ///
    ///     waybill.observe(.only(AlertObserver(), PlaylistScreen.self))
    ///
    /// For debug builds. Alerts are shown one at a time, in the order of events; if more than three wait, they are
    /// merged into one. An alert is presented on the topmost presented controller; while that is an alert, or is being
    /// presented or dismissed, it waits.
    @MainActor
    public final class AlertObserver: EventObserver {
        /// The interval for checking whether an alert was dismissed, or can be presented.
        ///
        /// Short enough to seem immediate. UIKit does not report an alert's end when its presenter is dismissed, so
        /// only polling detects it reliably.
        private static let interval = Duration.milliseconds(250)

        /// The waiting alerts.
        public nonisolated let feed = AlertFeed()

        private let root: () -> UIViewController?
        private var showing: Task<Void, Never>?

        /// Creates an observer that shows alerts over the controller returned by `root`, or over one presented there.
        public init(root: @escaping @MainActor () -> UIViewController?) {
            self.root = root
            let arrivals = self.feed.arrivals()
            self.showing = Task { [weak self] in
                for await _ in arrivals { await self?.showAll() }
            }
        }

        /// Creates an observer that shows alerts in the active window.
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

        /// Adds an alert for a stored event.
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

        /// Presents an alert; returns `nil` if that is not possible now.
        private func present(_ alert: EventAlert) -> UIAlertController? {
            guard let root = self.root(),
                let host = AlertHost.topmost(from: root, presented: \.presentedViewController, canHost: Self.canHost)
            else { return nil }
            let controller = UIAlertController(
                title: alert.title, message: alert.message, preferredStyle: .alert)
            controller.addAction(UIAlertAction(title: "OK", style: .default))
            host.present(controller, animated: true)
            // UIKit reports a refusal only in the log.
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

public import Foundation

@MainActor
open class UIResponder: NSObject {
    public nonisolated override init() { super.init() }
}

@MainActor
open class UIViewController: UIResponder {
    open var presentedViewController: UIViewController? { fatalError() }
    open var presentingViewController: UIViewController? { fatalError() }
    open var isBeingPresented: Bool { fatalError() }
    open var isBeingDismissed: Bool { fatalError() }
    open func present(
        _ viewControllerToPresent: UIViewController, animated flag: Bool, completion: (() -> Void)? = nil
    ) {}
    open func viewDidAppear(_ animated: Bool) {}
    open func viewDidDisappear(_ animated: Bool) {}
}

@MainActor
open class UIAlertController: UIViewController {
    public enum Style: Int, Sendable {
        case actionSheet = 0
        case alert = 1
    }
    public convenience init(title: String?, message: String?, preferredStyle: UIAlertController.Style) { fatalError() }
    open func addAction(_ action: UIAlertAction) {}
}

@MainActor
open class UIAlertAction: NSObject {
    public enum Style: Int, Sendable {
        case `default` = 0
        case cancel = 1
        case destructive = 2
    }
    public convenience init(
        title: String?, style: UIAlertAction.Style, handler: ((UIAlertAction) -> Void)? = nil
    ) { fatalError() }
}

@MainActor
open class UIView: UIResponder {
    public nonisolated override init() { super.init() }
    public init(frame: CGRect) {}
    open var isHidden: Bool {
        get { fatalError() }
        set {}
    }
}

@MainActor
open class UIWindow: UIView {
    open var rootViewController: UIViewController?
}

@MainActor
open class UIScene: UIResponder {
    public enum ActivationState: Int, Sendable {
        case unattached = -1
        case foregroundActive = 0
        case foregroundInactive = 1
        case background = 2
    }
    open var activationState: UIScene.ActivationState { fatalError() }
}

@MainActor
open class UIWindowScene: UIScene {
    @available(iOS 15, tvOS 15, *)
    open var keyWindow: UIWindow? { fatalError() }
}

@MainActor
open class UIApplication: UIResponder {
    open class var shared: UIApplication { fatalError() }
    open var connectedScenes: Set<UIScene> { fatalError() }
    open func beginBackgroundTask(
        withName taskName: String?, expirationHandler handler: (@MainActor @Sendable () -> Void)? = nil
    ) -> UIBackgroundTaskIdentifier { fatalError() }
    open func endBackgroundTask(_ identifier: UIBackgroundTaskIdentifier) {}
    open var backgroundTimeRemaining: Double { fatalError() }
    public nonisolated class var didEnterBackgroundNotification: NSNotification.Name { fatalError() }
    public nonisolated class var willEnterForegroundNotification: NSNotification.Name { fatalError() }
}

public struct UIBackgroundTaskIdentifier: RawRepresentable, Hashable, Sendable {
    public var rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let invalid = UIBackgroundTaskIdentifier(rawValue: 0)
}

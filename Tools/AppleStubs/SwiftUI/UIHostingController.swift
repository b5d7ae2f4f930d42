#if canImport(UIKit)
    public import UIKit

    @preconcurrency @MainActor
    open class UIHostingController<Content: View>: UIViewController {
        public init(rootView: Content) { fatalError() }
    }
#endif

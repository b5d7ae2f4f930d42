/// Waybill for an app's views: SwiftUI modifiers, methods for view controllers, alerts and an event overlay.
///
///     @main
///     struct Shop: App {
///         private let tracker = ScreenTracker(waybill)
///         var body: some Scene { WindowGroup { HomeView().waybill(self.tracker) } }
///     }
///
///     struct HomeView: View {
///         var body: some View {
///             List { … }
///                 .trackScreen("Home")
///                 .track(onAppear: OfferShown(), .every(.seconds(60)))
///         }
///     }
///
/// All decisions are made and tested in `WaybillPresentation`; this module has only the code that needs Apple's
/// frameworks. Nothing is swizzled: only marked views are tracked. On other platforms this module is empty.
#if canImport(SwiftUI) || canImport(UIKit)
    @_exported public import Waybill
    @_exported public import WaybillPresentation
#endif

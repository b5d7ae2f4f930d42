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
/// All decisions are made and tested without Apple's frameworks. Nothing is swizzled: only marked views are tracked.
#if canImport(SwiftUI) || canImport(UIKit)
    @_exported public import Waybill
#endif

/// Waybill for the views of an app: SwiftUI modifiers, calls for view controllers, alerts and an overlay of events.
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
/// All decisions are made, and tested, in `WaybillPresentation`; here is only what needs Apple's frameworks. Nothing
/// is swizzled: what is not marked is not tracked. On other platforms this module is empty.
#if canImport(SwiftUI) || canImport(UIKit)
    @_exported public import Waybill
    @_exported public import WaybillPresentation
#endif

import FirebaseCore
import SwiftUI
import WaybillUI

@main
struct PhotosApp: App {
    private let tracking: Tracking?

    init() {
        FirebaseApp.configure()
        do {
            self.tracking = try Tracking()
        } catch {
            print("nothing is tracked: \(error)")
            self.tracking = nil
        }
    }

    var body: some Scene {
        WindowGroup {
            if let tracking {
                RootView(tracking: tracking)
            } else {
                GalleryView(photos: Photo.examples)
            }
        }
    }
}

struct RootView: View {
    let tracking: Tracking
    @Environment(\.scenePhase) private var phase

    var body: some View {
        GalleryView(photos: Photo.examples)
            .waybill(tracking.screens)
            .onChange(of: phase) { tracking.entered(phase) }
    }
}

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
                GalleryView(photos: Photo.examples).waybill(tracking.screens)
            } else {
                GalleryView(photos: Photo.examples)
            }
        }
    }
}

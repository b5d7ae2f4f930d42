import FirebaseCore
import SwiftUI

@main
struct PhotosApp: App {
    init() {
        FirebaseApp.configure()
    }

    var body: some Scene {
        WindowGroup {
            GalleryView(photos: Photo.examples)
        }
    }
}

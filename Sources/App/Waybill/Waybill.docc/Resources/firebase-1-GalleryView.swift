import FirebaseAnalytics
import SwiftUI

struct Photo: Identifiable {
    let id: String
    let title: String

    static let examples = [Photo(id: "p-17", title: "Han River"), Photo(id: "p-18", title: "Namsan")]
}

struct GalleryView: View {
    let photos: [Photo]

    var body: some View {
        List(photos) { photo in
            Button("Like \(photo.title)") {
                Analytics.logEvent(
                    "select_content", parameters: ["content_type": "photo", "item_id": photo.id])
            }
        }
        .analyticsScreen(name: "Gallery", class: "GalleryView")
    }
}

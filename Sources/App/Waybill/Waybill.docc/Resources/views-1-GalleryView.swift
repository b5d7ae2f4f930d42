import FirebaseAnalytics
import SwiftUI
import WaybillUI

struct Photo: Identifiable {
    let id: String
    let title: String

    static let examples = [Photo(id: "p-17", title: "Han River"), Photo(id: "p-18", title: "Namsan")]
}

struct GalleryView: View {
    let photos: [Photo]
    @Environment(\.waybill) private var waybill

    var body: some View {
        List(photos) { photo in
            Button("Like \(photo.title)") {
                waybill?.track(PhotoLiked(photoID: photo.id))
            }
        }
        .analyticsScreen(name: "Gallery", class: "GalleryView")
    }
}

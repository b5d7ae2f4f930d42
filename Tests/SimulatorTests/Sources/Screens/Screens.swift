import SwiftUI
import UIKit
import WaybillUI

struct PhotoShown: Event {
    let photoID: String

    var name: String { "photo_show" }
    func encode(into fields: inout Fields) { fields.put("photoID", self.photoID) }
}

/// A screen in SwiftUI.
struct PhotoView: View {
    let id: String

    var body: some View {
        Text(verbatim: self.id)
            .track(onAppear: PhotoShown(photoID: self.id))
            .trackScreen("Photo", id: self.id)
    }
}

/// A screen in UIKit.
final class SearchController: UIViewController {
    var tracker: ScreenTracker?

    override func viewDidAppear(_ animated: Bool) {
        super.viewDidAppear(animated)
        if let tracker { self.screenAppeared("Search", in: tracker) }
    }

    override func viewDidDisappear(_ animated: Bool) {
        super.viewDidDisappear(animated)
        if let tracker { self.screenDisappeared(in: tracker) }
    }
}

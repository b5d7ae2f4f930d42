import Waybill

struct PhotoLiked: ActionEvent, Encodable {
    let photoID: String

    var name: String { "photo_like" }

    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].name = "select_content"
        overrides[.ga4].rename("photoID", to: "item_id")
        overrides[.ga4].set("content_type", "photo")
    }
}

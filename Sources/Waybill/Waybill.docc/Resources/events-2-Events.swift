import Waybill

struct PhotoLiked: ActionEvent {
    let photoID: String

    var name: String { "photo_like" }

    func encode(into fields: inout Fields) {
        fields.put("photoID", photoID)
    }

    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].name = "select_content"
        overrides[.ga4].fields.put("content_type", "photo")
        overrides[.ga4].fields.put("item_id", photoID)
    }
}

import Waybill

struct PhotoLiked: ActionEvent {
    let photoID: String

    var name: String { "photo_like" }

    func encode(into fields: inout Fields) {
        fields.put("photoID", photoID)
    }
}

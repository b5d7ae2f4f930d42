import Waybill

struct PhotoLiked: ActionEvent, Encodable {
    let photoID: String

    var name: String { "photo_like" }
}

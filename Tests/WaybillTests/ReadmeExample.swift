import Waybill

struct PhotoLiked: ActionEvent {
    let photoID: String
    var name: String { "photo_like" }
    func encode(into fields: inout Fields) { fields.put("photoID", photoID) }
    func customize(_ overrides: inout Overrides) { overrides[.ga4].name = "select_content" }
}

func start() throws {
    let waybill = try WaybillClient(
        .init(spool: "/var/spool/shop", environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118"))
    waybill.setUser("u-8812345", traits: ["tier": "PREMIUM"])
    waybill.track(PhotoLiked(photoID: "p-17"))
}

import Waybill

struct PhotoLiked: ActionEvent, Encodable {
    let photoID: String
    var name: String { "photo_like" }
    func customize(_ overrides: inout Overrides) { overrides[.ga4].name = "select_content" }
}

func start() throws {
    let waybill = try WaybillClient(
        .init(spool: "/var/spool/shop", environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118"))
    waybill.setUser("u-8812345", traits: ["tier": "PREMIUM"])
    waybill.track(PhotoLiked(photoID: "p-17"))
}

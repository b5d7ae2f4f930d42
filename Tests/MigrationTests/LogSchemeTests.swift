// A scheme of log lines with a version, as apps write it:
//
//     struct ProductTapScheme {
//         static let version: Float = 1.10             // Written "1.1".
//         private var fields: [String: Any] = [:]      // No order.
//         final class Builder {
//             func setName(_ name: String?) -> Builder { self.name = name; return self }  // One for each field.
//             func build() -> ProductTapScheme { … }   // Leaves nil out.
//         }
//         var line: String {
//             let head = [self.localTime, self.appVersion, self.os, "\(Self.version)", "Product Tapped", self.view]
//             // A comma in a name makes one cell more.
//             return (head + self.fields.map { "\($0)=\($1)" }).joined(separator: ",")
//         }
//     }
//     // And for each line: open the file, seek to its end, write, close.
//
// A builder's setters are the initializer's arguments; its order is the order of `put`; the line becomes a row of CSV
// where the reports are made.

import Testing
import Waybill
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem
import WaybillTesting

private struct ProductTapped: ActionEvent {
    static let logVersion = "1.10"
    let product: String
    var price: Int?
    var position: String?
    var index: Int?
    var view: String?
    var name: String { "Product Tapped" }
    var screen: ScreenRef? { self.view.map { ScreenRef($0) } }

    func encode(into fields: inout Fields) {
        fields.put("productName", self.product)
        fields.put("productPrice", self.price)
        fields.put("productPosition", self.position)
        fields.put("productIndex", self.index)
    }
}

private struct ShoppingList: ScreenEvent, FieldlessEvent {
    static let logVersion = "2.0"
}

/// The table of a day in Seoul.
private func table(_ recorder: Recorder, _ change: (inout CSVOptions) -> Void = { _ in }) throws -> String {
    var options = ExportOptions(
        provider: .csv, zone: try TimeZoneRules(named: "Asia/Seoul", from: POSIXFileSystem()))
    change(&options.csv)
    let sink = recorder.exported(options)
    #expect(sink.eventCount == recorder.events.count)
    return String(decoding: Exporter(options).description.header, as: UTF8.self) + sink.output
}

@Test func `a tap on a product is one row with the scheme's columns, whatever the product is called`() throws {
    let recorder = try Recorder.shop()
    recorder.waybill.track(ShoppingList())
    recorder.advance(by: .milliseconds(3077))
    let tapped = ProductTapped(product: "토스터, 2구 \"특가\"\n한정", price: 39_900, position: "left", index: 7)
    recorder.waybill.track(tapped)
    #expect(
        recorder.events.last?.contents == #"""
            "data":{"productName":"토스터, 2구 \"특가\"\n한정","productPrice":39900,"productPosition":"left","productIndex":7}
            """#)
    #expect(
        try table(recorder)
            == [
                "Time,AppVersion,OS,LogVersion,Event,View,Others",
                "2025-03-01 18:14:15,118,17.0.1,2.0,screen_view,ShoppingList,",
                "2025-03-01 18:14:19,118,17.0.1,1.10,Product Tapped,ShoppingList,"
                    + #""productName=토스터, 2구 ""특가""\n한정;productPrice=39900;productPosition=left;productIndex=7""#,
                "",
            ].joined(separator: "\r\n"))
}

@Test(arguments: [
    (ProductTapped(product: "Kettle"), "productName=Kettle"),
    (ProductTapped(product: "Kettle", index: 0), "productName=Kettle;productIndex=0"),
    (ProductTapped(product: "Kettle", price: 1, index: 2), "productName=Kettle;productPrice=1;productIndex=2"),
    (ProductTapped(product: "", position: ""), "productName=;productPosition="),
])
private func `what is nil is in no row, and what is there keeps its order`(event: ProductTapped, others: String) throws
{
    let recorder = try Recorder.shop()
    recorder.waybill.track(event)
    #expect(recorder.events.first?.fields.map { "\($0.name)=\($0.text)" }.joined(separator: ";") == others)
    #expect(
        try table(recorder) == "Time,AppVersion,OS,LogVersion,Event,View,Others\r\n"
            + "2025-03-01 18:14:15,118,17.0.1,1.10,Product Tapped,,\(others)\r\n")
}

@Test func `a row names the screen that the event says, or else the one that appeared last`() throws {
    let recorder = try Recorder.shop()
    recorder.waybill.track(ProductTapped(product: "a"))
    recorder.waybill.screen("Home")
    recorder.waybill.track(ProductTapped(product: "b"))
    recorder.waybill.track(ProductTapped(product: "c", view: "Banner"))
    recorder.waybill.track(ProductTapped(product: "d"))
    recorder.waybill.track(ShoppingList())
    recorder.waybill.track(ProductTapped(product: "e"))
    let rows = try table(recorder).split(separator: "\r\n").dropFirst().map { row in
        row.split(separator: ",", omittingEmptySubsequences: false)[3...].joined(separator: ",")
    }
    #expect(
        rows == [
            "1.10,Product Tapped,,productName=a", ",screen_view,Home,", "1.10,Product Tapped,Home,productName=b",
            "1.10,Product Tapped,Banner,productName=c", "1.10,Product Tapped,Home,productName=d",
            "2.0,screen_view,ShoppingList,", "1.10,Product Tapped,ShoppingList,productName=e",
        ])
}

@Test func `a product's name is never a formula, and its own signs are told from the row's`() throws {
    let recorder = try Recorder.shop()
    recorder.waybill.track(ProductTapped(product: #"=cmd;a=1\b"#, view: "=1+1"))
    #expect(
        try table(recorder) == "Time,AppVersion,OS,LogVersion,Event,View,Others\r\n"
            + #"2025-03-01 18:14:15,118,17.0.1,1.10,Product Tapped,'=1+1,productName=\=cmd\;a\=1\\b"# + "\r\n")
}

@Test func `readers of the old files get a cell for each field`() throws {
    let recorder = try Recorder.shop()
    recorder.waybill.track(ProductTapped(product: "토스터, 2구", price: 39_900, index: 7, view: "ShoppingList"))
    #expect(
        try table(recorder) { $0.others = .columns } == "Time,AppVersion,OS,LogVersion,Event,View,Others\r\n"
            + "2025-03-01 18:14:15,118,17.0.1,1.10,Product Tapped,ShoppingList,"
            + #""productName=토스터, 2구",productPrice=39900,productIndex=7"# + "\r\n")
}

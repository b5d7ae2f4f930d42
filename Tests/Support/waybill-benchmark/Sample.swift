import WaybillExport
import WaybillJSON
import WaybillSystem

/// Realistic events of about 530 bytes each, the same for the same seed.
struct Sample {
    let lines: [UInt8]
    let lineCount: Int

    private static let names = [
        "Product Tapped", "moment_like", "search", "add_to_cart", "share", "scroll_end",
    ]
    private static let screens = ["Home", "ShoppingList", "ProductDetail", "Cart", "Checkout", "로그인 화면"]
    private static let words = ["alpha", "bravo", "charlie", "토스터", "사과", "바나나", "hotel, \\\"inn\\\""]

    /// Generates as many whole lines as fit into `byteCount`.
    init(byteCount: Int, from start: WallTime, seed: UInt64 = 1) {
        var random = SeededGenerator(seed: seed)
        var lines: [UInt8] = []
        var lineCount = 0
        var time = start
        let writer = "019550fc-2dfb-7b1c-82d3-000000000001"
        while true {
            lineCount += 1
            time = WallTime(milliseconds: time.milliseconds + Int64(random.next() % 300))
            let id = Hexadecimal.text(random.next(), digitCount: 16) + Hexadecimal.text(random.next(), digitCount: 16)
            let (head, tail) = (id.prefix(12), id.suffix(15))
            let uuid =
                "\(head.prefix(8))-\(head.suffix(4))-7\(tail.prefix(3))-8\(tail.dropFirst(3).prefix(3))-"
                + "0000\(id.suffix(8))"
            let line =
                #"{"v":1,"id":"\#(uuid)","writer":"\#(writer)","seq":\#(lineCount),"ts":"\#(Self.text(time))","#
                + #""up":\#(lineCount * 37),"kind":"action","name":"\#(Self.names[Int(random.next() % 6)])","#
                + #""screen":"\#(Self.screens[Int(random.next() % 6)])","session":"\#(writer)","#
                + #""user":"u-\#(Int(random.next() % 1_000_000))","anon":"\#(writer)","ids":{"ga4":"\#(id)"},"app":"1.4.2","#
                + #""build":"118","bundle":"com.example.shop","os":"iOS","os_version":"17.0.1","tz":540,"#
                + #""env":"prod","data":{"item":"\#(Self.words[Int(random.next() % 7)])","price":\#(Int(random.next() % 99_999)),"#
                + #""index":\#(Int(random.next() % 50))}}"# + "\n"
            guard lines.count + line.utf8.count <= byteCount else { break }
            lines.append(contentsOf: line.utf8)
        }
        self.lines = lines
        self.lineCount = lineCount - 1
    }

    private static func text(_ time: WallTime) -> String {
        var text = ByteBuilder(capacity: 32)
        TimeText.append(time, to: &text)
        return String(decoding: text.bytes, as: UTF8.self)
    }
}

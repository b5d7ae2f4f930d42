import WaybillSystem

/// Events as apps write them, about 530 bytes each, the same for the same seed.
struct Sample {
    let lines: [UInt8]
    let lineCount: Int

    private static let names = [
        "Product Tapped", "moment_like", "search", "add_to_cart", "share", "scroll_end",
    ]
    private static let screens = ["Home", "ShoppingList", "ProductDetail", "Cart", "Checkout", "로그인 화면"]
    private static let words = ["alpha", "bravo", "charlie", "토스터", "사과", "바나나", "hotel, \\\"inn\\\""]

    /// Makes as many whole lines as fit into `byteCount`.
    init(byteCount: Int, from start: WallTime, seed: UInt64 = 1) {
        var random = SplitMix(state: seed)
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
                + #""up":\#(lineCount * 37),"kind":"action","name":"\#(Self.names[random.index(6)])","#
                + #""screen":"\#(Self.screens[random.index(6)])","session":"\#(writer)","#
                + #""user":"u-\#(random.index(1_000_000))","anon":"\#(writer)","ids":{"ga4":"\#(id)"},"app":"1.4.2","#
                + #""build":"118","bundle":"com.example.shop","os":"iOS","os_version":"17.0.1","tz":540,"#
                + #""env":"prod","data":{"item":"\#(Self.words[random.index(7)])","price":\#(random.index(99_999)),"#
                + #""index":\#(random.index(50))}}"# + "\n"
            guard lines.count + line.utf8.count <= byteCount else { break }
            lines.append(contentsOf: line.utf8)
        }
        self.lines = lines
        self.lineCount = lineCount - 1
    }

    private static func text(_ time: WallTime) -> String {
        let day = CalendarDay(daysSince1970: Int32(time.milliseconds / 86_400_000))
        let rest = time.milliseconds % 86_400_000
        func digits(_ value: Int64, _ count: Int) -> String {
            let text = String(value)
            return String(repeating: "0", count: count - text.count) + text
        }
        return "\(day)T\(digits(rest / 3_600_000, 2)):\(digits(rest / 60_000 % 60, 2)):"
            + "\(digits(rest / 1000 % 60, 2)).\(digits(rest % 1000, 3))Z"
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct SplitMix {
    var state: UInt64

    mutating func next() -> UInt64 {
        self.state &+= 0x9E37_79B9_7F4A_7C15
        var z = self.state
        z = (z ^ (z &>> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z &>> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z &>> 31)
    }

    mutating func index(_ count: Int) -> Int {
        Int(self.next() % UInt64(count))
    }
}

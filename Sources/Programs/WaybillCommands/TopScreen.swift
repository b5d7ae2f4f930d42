import WaybillLive
import WaybillSystem
import WaybillHost

/// A key of the keyboard, as `waybill top` takes it.
enum TopKey: Hashable {
    case quit, up, down, pageUp, pageDown, first, last, sort
}

/// Finds keys in the bytes of a terminal, which may split an arrow's three.
struct TopKeys {
    private var rest: [UInt8] = []

    mutating func add(_ bytes: some Sequence<UInt8>) -> [TopKey] {
        self.rest += bytes
        var keys: [TopKey] = []
        while let (key, byteCount) = Self.first(in: self.rest) {
            self.rest.removeFirst(byteCount)
            if let key { keys.append(key) }
        }
        return keys
    }

    /// The first key, `nil` for one without a meaning, and its bytes; `nil` while it is not whole.
    private static func first(in bytes: [UInt8]) -> (key: TopKey?, byteCount: Int)? {
        guard let byte = bytes.first else { return nil }
        guard byte == 0x1B else { return (Self.key(byte), 1) }
        // ESC [ parameters letter, or ESC O letter.
        guard bytes.count > 1 else { return nil }
        guard bytes[1] == UInt8(ascii: "[") || bytes[1] == UInt8(ascii: "O") else { return (nil, 1) }
        guard let end = bytes.dropFirst(2).firstIndex(where: { (0x40...0x7E).contains($0) }) else {
            return bytes.count > 16 ? (nil, bytes.count) : nil
        }
        let parameters = bytes[2..<end]
        switch bytes[end] {
        case UInt8(ascii: "A"): return (.up, end + 1)
        case UInt8(ascii: "B"): return (.down, end + 1)
        case UInt8(ascii: "H"): return (.first, end + 1)
        case UInt8(ascii: "F"): return (.last, end + 1)
        case UInt8(ascii: "~") where parameters.elementsEqual("5".utf8): return (.pageUp, end + 1)
        case UInt8(ascii: "~") where parameters.elementsEqual("6".utf8): return (.pageDown, end + 1)
        default: return (nil, end + 1)
        }
    }

    private static func key(_ byte: UInt8) -> TopKey? {
        switch byte {
        case UInt8(ascii: "q"), UInt8(ascii: "Q"): .quit
        case UInt8(ascii: "k"): .up
        case UInt8(ascii: "j"): .down
        case UInt8(ascii: "b"): .pageUp
        case UInt8(ascii: " "), UInt8(ascii: "f"): .pageDown
        case UInt8(ascii: "g"): .first
        case UInt8(ascii: "G"): .last
        case UInt8(ascii: "s"): .sort
        default: nil
        }
    }
}

/// What `waybill top` shows: the last answers, an order, and a position in the lines.
///
///     waybill top  12:00:01Z  order: worst (s)  lines 1-22 of 40 (j, k)  q quits       one line
///     receiver collector-1 …                                                          the other lines of the screen
struct TopScreen {
    private struct Shown {
        let place: String
        var document: StatusDocument?
        var failure = ""
        var rates = StatusRates()
    }

    private var shown: [Shown] = []
    private(set) var order = StatusTable.Order.worst
    private var offset = 0
    private var time = ""

    /// Takes the answers of a round; the rates are those since the last one.
    mutating func take(_ answers: [StatusAnswer], time: String) {
        self.time = time
        self.shown = answers.enumerated().map { index, answer in
            let old = index < self.shown.count ? self.shown[index].document : nil
            guard let document = answer.document else {
                return Shown(place: answer.place.description, failure: answer.failure)
            }
            return Shown(
                place: answer.place.description, document: document, rates: StatusRates(from: old, to: document))
        }
    }

    /// - Returns: whether to continue.
    mutating func press(_ key: TopKey, rows: Int) -> Bool {
        let page = max(1, rows - 2)
        switch key {
        case .quit: return false
        case .up: self.offset -= 1
        case .down: self.offset += 1
        case .pageUp: self.offset -= page
        case .pageDown: self.offset += page
        case .first: self.offset = 0
        case .last: self.offset = .max / 2
        case .sort: self.order = self.order.next
        }
        self.offset = max(0, self.offset)
        return true
    }

    /// The lines of the screen, as many as it has or fewer.
    mutating func lines(columns: Int, rows: Int) -> [StatusLine] {
        var view = StatusView()
        view.width = columns
        view.order = self.order
        var body: [StatusLine] = []
        for (index, shown) in self.shown.enumerated() {
            if index > 0 { body.append(StatusLine(text: "")) }
            body +=
                shown.document.map { view.lines(of: $0, at: shown.place, rates: shown.rates) }
                ?? view.lines(ofFailure: shown.failure, at: shown.place)
        }
        let room = max(0, rows - 1)
        self.offset = max(0, min(self.offset, body.count - room))
        let visible = body.dropFirst(self.offset).prefix(room)
        var head = "waybill top  \(self.time)  order: \(self.order.rawValue) (s)"
        if body.count > room {
            head += "  lines \(self.offset + 1)-\(self.offset + visible.count) of \(body.count) (j, k)"
        }
        head += "  q quits"
        return [StatusLine(text: TerminalText.prefix(head, width: columns), style: .heading)] + visible
    }

    /// What redraws a screen with these lines, without clearing it first: nothing flickers.
    static func redraw(_ lines: [StatusLine], isColoured: Bool) -> String {
        "\u{1B}[H" + lines.map { $0.rendered(isColoured: isColoured) + "\u{1B}[K" }.joined(separator: "\r\n")
            + "\u{1B}[J"
    }
}

extension Message {
    /// The message's line with its LF, as defined in `Protocol/protocol.md` section 4.
    package var encoded: [UInt8] {
        Array((self.text + "\n").utf8)
    }

    private var text: String {
        switch self {
        case .hello(let hello): "HELLO \(hello.json)"
        case .ready(let ready): "READY \(ready.json)"
        case .open(let stream, let description): "OPEN \(stream.rawValue) \(description.json)"
        case .at(let stream, let offset): "AT \(stream.rawValue) \(offset.rawValue)"
        case .batch(let header): header.text
        case .ack(let stream, let offset): "ACK \(stream.rawValue) \(offset.rawValue)"
        case .nak(let stream, let offset, let code, let text):
            "NAK \(stream.rawValue) \(offset.rawValue) \(code.rawValue) \(FreeText.printable(text))"
        case .skip(let stream, let offset, let byteCount, let reason):
            "SKIP \(stream.rawValue) \(offset.rawValue) \(byteCount) \(reason.rawValue)"
        case .seal(let stream, let length): "SEAL \(stream.rawValue) \(length.rawValue)"
        case .sealed(let stream): "SEALED \(stream.rawValue)"
        case .ping(let number): "PING \(number)"
        case .pong(let number): "PONG \(number)"
        case .wait(let milliseconds): "WAIT \(milliseconds)"
        case .move(let receivers):
            "MOVE {\"receivers\":[\(receivers.map(FreeText.quoted).joined(separator: ","))]}"
        case .err(let code, let text): "ERR \(code.rawValue) \(FreeText.printable(text))"
        case .bye: "BYE"
        case .mark(let position, let milliseconds, let checksum):
            "MARK \(position) \(milliseconds) \(FreeText.hexadecimal(checksum))"
        }
    }
}

extension BatchHeader {
    fileprivate var text: String {
        "BATCH \(self.stream.rawValue) \(self.offset.rawValue) \(self.rawByteCount) \(self.lineCount) "
            + "\(self.wireByteCount) \(FreeText.hexadecimal(self.checksum))"
    }
}

extension Hello {
    fileprivate var json: String {
        var members = [
            "\"protocol\":[\(self.versions.map(String.init).joined(separator: ","))]",
            "\"agent\":\(FreeText.quoted(self.agent))",
            "\"instance\":\(FreeText.quoted(self.instance))",
        ]
        if let token { members.append("\"token\":\(FreeText.quoted(token))") }
        members.append("\"accept\":[\(self.encodings.map(FreeText.quoted).joined(separator: ","))]")
        return "{\(members.joined(separator: ","))}"
    }
}

extension Ready {
    fileprivate var json: String {
        let limits = self.limits
        return "{\"protocol\":\(self.version),\"receiver\":\(FreeText.quoted(self.receiver)),"
            + "\"limits\":{\"line\":\(limits.lineByteCountMax),\"raw\":\(limits.rawByteCountMax),"
            + "\"wire\":\(limits.wireByteCountMax),\"streams\":\(limits.streamCountMax),"
            + "\"idle_ms\":\(limits.idleMilliseconds)},"
            + "\"window\":\(limits.windowByteCount),\"time\":\(self.milliseconds)}"
    }
}

extension StreamDescription {
    /// The JSON object of `OPEN`, with its members in a fixed order.
    package var json: String {
        var members = [
            "\"stream\":\"\(self.id.text)\"",
            "\"source\":\(FreeText.quoted(self.source))",
            "\"env\":\(FreeText.quoted(self.environment))",
            "\"bundle\":\(FreeText.quoted(self.bundle))",
            "\"format\":\"\(self.format.rawValue)\"",
        ]
        if let timeMember { members.append("\"time\":\(FreeText.quoted(timeMember))") }
        if let nameMember { members.append("\"name\":\(FreeText.quoted(nameMember))") }
        return "{\(members.joined(separator: ","))}"
    }
}

/// Text for the protocol's ASCII lines.
package enum FreeText {
    /// A JSON string of printable ASCII; everything else is escaped.
    package static func quoted(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { (0x20...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
        if isPlain { return "\"\(text)\"" }
        var result = "\""
        for unit in text.utf16 {
            switch unit {
            case 0x22: result += "\\\""
            case 0x5C: result += "\\\\"
            case 0x20...0x7E: result.unicodeScalars.append(Unicode.Scalar(UInt8(unit)))
            default:
                let digits = String(unit, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
            }
        }
        return result + "\""
    }

    /// `text` with `?` for everything that is not printable ASCII, shortened to keep the line within its limit.
    static func printable(_ text: String) -> String {
        String(decoding: text.utf8.prefix(512).map { (0x20...0x7E).contains($0) ? $0 : 0x3F }, as: UTF8.self)
    }

    /// 8 lower-case hexadecimal digits.
    static func hexadecimal(_ value: UInt32) -> String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: 8 - digits.utf8.count) + digits
    }
}

internal import WaybillSystem

extension Message {
    /// The message's line with its LF, as defined in `Protocol/protocol.md`, section 3.
    package var encoded: [UInt8] {
        Array((self.text + "\n").utf8)
    }

    private var text: String {
        switch self {
        case .hello(let hello): "HELLO \(hello.json)"
        case .ready(let ready): "READY \(ready.json)"
        case .open(let stream, let description, let claim):
            "OPEN \(stream.rawValue) \(description.json(with: claim))"
        case .at(let stream, let offset, let proof, let end):
            "AT \(stream.rawValue) \(offset.rawValue) \(proof.text(end))"
        case .batch(let header): header.text
        case .ack(let stream, let offset, let end): "ACK \(stream.rawValue) \(offset.rawValue) \(end)"
        case .nak(let stream, let offset, let code, let text):
            "NAK \(stream.rawValue) \(offset.rawValue) \(code.rawValue) \(FreeText.printable(text))"
        case .skip(let stream, let range):
            "SKIP \(stream.rawValue) \(range.offset.rawValue) \(range.byteCount) \(range.reason.rawValue) "
                + (range.tail.map { Base64.text($0) } ?? "-") + (range.holder.map { " \($0)" } ?? "")
        case .seal(let stream, let length): "SEAL \(stream.rawValue) \(length.rawValue)"
        case .sealed(let stream, let proof, let end): "SEALED \(stream.rawValue) \(proof.text(end))"
        case .stored(let stream, let offset): "STORED \(stream.rawValue) \(offset.rawValue)"
        case .note(let counts): QuarantineCount.note(counts)
        case .ping(let number): "PING \(number)"
        case .pong(let number): "PONG \(number)"
        case .wait(let milliseconds): "WAIT \(milliseconds)"
        case .move(let receivers):
            "MOVE {\"receivers\":[\(receivers.map(FreeText.quoted).joined(separator: ","))]}"
        case .err(let code, let text): "ERR \(code.rawValue) \(FreeText.printable(text))"
        case .bye: "BYE"
        case .mark(let position, let milliseconds, let checksum):
            "MARK \(position) \(milliseconds) \(FreeText.hexadecimal(checksum))"
        case .start(let start, let incarnation): "START \(start.position) \(start.idText) \(incarnation.text)"
        case .resting(let count, let byteCount, let checksum):
            "RESTING \(count) \(byteCount) \(FreeText.hexadecimal(checksum))"
        case .tail(let stream, let bytes): "TAIL \(stream.rawValue) \(Base64.text(bytes))"
        }
    }
}

extension StreamProof {
    /// The fields of `AT` and `SEALED` from the proof on; `end` is the end of the journal.
    fileprivate func text(_ end: UInt64) -> String {
        let skipped = self.skippedByteCount > 0 ? " \(self.skippedByteCount)" : ""
        return "\(self.byteCount) \(self.digest?.text ?? "-") \(end)\(skipped)"
    }
}

extension QuarantineCount {
    fileprivate static func note(_ counts: [QuarantineCount]) -> String {
        let lists = [counts.filter { $0.export == nil }, counts.filter { $0.export != nil }].map {
            $0.map(\.json).joined(separator: ",")
        }
        let refused = lists[1].isEmpty ? "" : ",\"refused\":[\(lists[1])]"
        return "NOTE {\"quarantined\":[\(lists[0])]\(refused)}"
    }

    private var json: String {
        let export = self.export.map { ",\"export\":\(FreeText.quoted($0))" } ?? ""
        return "{\"stream\":\"\(self.stream.text)\"\(export),\"reason\":\(FreeText.quoted(self.reason)),"
            + "\"count\":\(self.count)}"
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
        if let key { members.append("\"key\":\(FreeText.quoted(key))") }
        members.append("\"accept\":[\(self.encodings.map(FreeText.quoted).joined(separator: ","))]")
        if let software { members.append("\"software\":\(FreeText.quoted(software))") }
        if let milliseconds { members.append("\"time\":\(milliseconds)") }
        return "{\(members.joined(separator: ","))}"
    }
}

extension Ready {
    fileprivate var json: String {
        let limits = self.limits
        let receiver = self.receiver
        let starts = receiver.starts.map { "[\"\($0.idText)\",\($0.position)]" }.joined(separator: ",")
        let fleet = self.fleet.map { "\"fleet\":\(FreeText.quoted($0))," } ?? ""
        return "{\"protocol\":\(self.version),\"receiver\":\(FreeText.quoted(receiver.name)),"
            + "\"incarnation\":\"\(receiver.incarnation.text)\",\"start\":\"\(FreeText.hexadecimal(receiver.start))\","
            + "\"end\":\(receiver.end),\"starts\":[\(starts)],"
            + "\"id\":\(FreeText.quoted(receiver.id)),\(fleet)\"level\":\"\(self.level.rawValue)\","
            + "\"limits\":{\"line\":\(limits.lineByteCountMax),\"raw\":\(limits.rawByteCountMax),"
            + "\"wire\":\(limits.wireByteCountMax),\"lines\":\(limits.lineCountMax),\"streams\":\(limits.streamCountMax),"
            + "\"idle_ms\":\(limits.idleMilliseconds)},"
            + "\"window\":\(limits.windowByteCount),\"time\":\(self.milliseconds)}"
    }
}

extension StreamDescription {
    /// The JSON object of `OPEN`, with its members in a fixed order.
    package var json: String { self.json(with: .none) }

    fileprivate func json(with claim: OpenClaim) -> String {
        var members = [
            "\"stream\":\"\(self.id.text)\"",
            "\"source\":\(FreeText.quoted(self.source))",
            "\"env\":\(FreeText.quoted(self.environment))",
            "\"bundle\":\(FreeText.quoted(self.bundle))",
            "\"format\":\"\(self.format.rawValue)\"",
        ]
        for (key, member) in [
            ("time", self.timeMember), ("name", self.nameMember), ("user", self.userMember),
            ("anonymous", self.anonymousMember),
        ] {
            if let member { members.append("\"\(key)\":\(FreeText.quoted(member))") }
        }
        members += self.owner.members + claim.members
        return "{\(members.joined(separator: ","))}"
    }
}

extension StreamOwner {
    fileprivate var members: [String] {
        var members: [String] = []
        if !self.principal.isEmpty { members.append("\"principal\":\(FreeText.quoted(self.principal))") }
        for (name, patterns) in [("envs", self.environments), ("bundles", self.bundles)] where !patterns.isEmpty {
            members.append("\"\(name)\":[\(patterns.map(FreeText.quoted).joined(separator: ","))]")
        }
        return members
    }
}

extension OpenClaim {
    fileprivate var members: [String] {
        var members: [String] = []
        if let from { members.append("\"from\":\(from.rawValue)") }
        if let by { members.append("\"by\":\(FreeText.quoted(by))") }
        if let proof { members.append("\"proof\":\"\(proof.text)\"") }
        return members
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

    /// Whether paths, logs and comparisons can bear a text: it has no control character and no U+FFFD.
    ///
    /// An unpaired surrogate of a JSON string has become U+FFFD: two names that differ in it alone would be one.
    package static func isName(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control && $0 != "\u{FFFD}" }
    }

    /// `text` with `?` for everything that is not printable ASCII, shortened to keep the line within its limit.
    static func printable(_ text: String) -> String {
        String(decoding: text.utf8.prefix(512).map { (0x20...0x7E).contains($0) ? $0 : 0x3F }, as: UTF8.self)
    }

    /// Lower-case hexadecimal digits, all of them.
    static func hexadecimal(_ value: some FixedWidthInteger & UnsignedInteger) -> String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: value.bitWidth / 4 - digits.utf8.count) + digits
    }

    /// The value of so many lower-case hexadecimal digits; `nil` for any other text.
    static func bits(_ digits: some Collection<UInt8>, digitCount: Int = 16) -> UInt64? {
        guard digits.count == digitCount else { return nil }
        var value: UInt64 = 0
        for digit in digits {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = value << 4 | UInt64(digit - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = value << 4 | UInt64(digit - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        return value
    }
}

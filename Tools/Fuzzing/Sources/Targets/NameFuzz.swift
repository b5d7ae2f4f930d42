internal import WaybillData
internal import WaybillJSON
internal import WaybillProtocol
internal import WaybillSpool
internal import WaybillSystem
internal import WaybillTestSupport
@testable internal import Waybill
@testable internal import WaybillProjection
@testable internal import WaybillTail

/// Names and small texts that are read back: what is accepted is what is written, but for the blanks of JSON.
enum NameFuzz {
    @Sendable static func run(_ input: [UInt8]) throws {
        let text = String(decoding: input, as: UTF8.self)
        try Self.checkClient(input)
        try Self.checkNames(text)
        // The state that holds these is made of lines.
        guard !input.contains(0x0A) else { return }
        try Self.checkRegistry(text)
        try Self.checkParts(text)
    }

    private static func checkClient(_ input: [UInt8]) throws {
        if let install = Install(parsing: input) {
            let again = Install(parsing: install.bytes)
            try require(again == install, "install.json is written as \(shown(install.bytes)): \(shown(input))")
        }
    }

    private static func checkNames(_ text: String) throws {
        if let name = SegmentName(parsing: text) {
            try require(Array(name.description.utf8) == Array(text.utf8), "segment \(text) is read as \(name)")
        }
        if let day = CalendarDay(text) {
            try require(day.description == text, "day \(text) is read as \(day)")
        }
        if let position = JournalPath.position(ofSegment: text) {
            let path = JournalPath.segment(position, in: "/j")
            try require(path == "/j/" + text, "journal segment \(text) is read as \(path)")
        }
        if let id = StreamID(text) {
            try require(id.text == text && text.utf8.count <= 128, "stream id \(text) is read as \(id)")
        }
        let component = PartitionPath.component(text)
        try require(!component.contains("/") && !component.hasPrefix(".") && !component.hasPrefix("_"), component)
        try require(component.utf8.count <= 120 && component.utf8.allSatisfy { 0x21...0x7E ~= $0 }, component)
        if let number = PartitionPath.partNumber(of: text) {
            try require(number >= 0, "part \(number)")
        }
    }

    private static func checkRegistry(_ text: String) throws {
        guard let entry = RegistryEntry(text) else { return }
        let again = RegistryEntry(entry.text)
        try require(again == entry, "a registry entry is read again as \(String(describing: again)): \(entry)")
        try require(entry.text.utf8.allSatisfy { $0 != 0x0A }, "a registry entry of two lines: \(entry)")
        try require(entry.byteCount >= 0 && entry.incarnation >= 0, "\(entry)")
        try require(entry.held.allSatisfy { $0.receiver > 0 && $0.incarnation >= 0 && $0.offset >= 0 }, "\(entry)")
    }

    private static func checkParts(_ text: String) throws {
        if let part = PartStanding(text: text) {
            let again = PartStanding(text: part.text)
            try require(again == part, "a part is read again as \(String(describing: again)): \(part)")
            try require(part.text.utf8.allSatisfy { $0 != 0x0A }, "a part of two lines: \(part)")
        }
        if let day = ExportDay(partition: text) {
            try require(
                ExportDay(partition: day.path(below: "x")) == day, "a partition is read again otherwise: \(text)")
        }
    }
}

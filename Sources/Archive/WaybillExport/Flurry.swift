internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// An archive in the format of Flurry's raw-data download: CSV, one row per event.
///
/// Flurry was shut down on 2024-03-15, so there is no endpoint to post a part to.
///
/// developer.yahoo.com/flurry/docs/analytics/rdd, read 2026-11-20.
struct Flurry: Provider {
    private static let header =
        "Timestamp,SessionIndex,SessionStart,Event,Params,UserId,DeviceId,AppVersion,Device,OS,Locale,Id"

    init(_ options: ExportOptions) {}

    var description: ProviderDescription {
        ProviderDescription(
            id: .flurry, fileExtension: "csv", header: Array(Self.header.utf8) + [0x0D, 0x0A],
            recordsPerPartMax: Limits.CSV.recordsPerPartMax, partByteCountMax: Limits.CSV.partByteCountMax)
    }

    var recordByteCountMax: Int { Limits.CSV.partByteCountMax }
    var terminator: StaticString { "\r\n" }
    var isJSON: Bool { false }

    func takes(_ kind: EventKind) -> Bool {
        switch kind {
        case .screen, .action, .event: true
        case .user, .meta: false
        }
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        self.writeParameters(of: event, into: &draft)
        draft.moveToTail()

        draft.json.output.append(decimal: event.facts.time.milliseconds)
        draft.json.output.append(UInt8(ascii: ","))
        if let number = event.integer(.sessionNumber), number >= 0 { draft.json.output.append(decimal: Int64(number)) }
        draft.json.output.append(UInt8(ascii: ","))
        if let start = event.sessionStart { draft.json.output.append(decimal: start) }
        self.writeCell(event.name, into: &draft)
        draft.cell.removeAll()
        draft.cell.append(draft.tail.output.bytes)
        draft.finishCell(isGuarded: true, characterCountMax: .max)
        self.writeCell(event.text(.user), into: &draft)
        self.writeCell(event.text(.anon), into: &draft)
        self.writeCell(event.text(.app), into: &draft)
        self.writeCell(event.text(.model), into: &draft)
        self.writeSystem(of: event, into: &draft)
        self.writeCell(event.text(.lang), into: &draft)
        self.writeCell(event.id, into: &draft)
        return .written
    }

    @inline(__always)
    private func writeCell(_ slice: TextSlice?, into draft: inout Draft) {
        draft.appendCell(slice, isGuarded: true, characterCountMax: .max)
    }

    /// Writes the system's name and version in one cell.
    private func writeSystem(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.cell.removeAll()
        if let name = event.text(.os) {
            draft.unescape(name)
            draft.cell.append(draft.text.bytes)
        }
        if let version = event.text(.osVersion) {
            if !draft.cell.isEmpty { draft.cell.append(UInt8(ascii: " ")) }
            draft.unescape(version)
            draft.cell.append(draft.text.bytes)
        }
        draft.finishCell(isGuarded: true, characterCountMax: .max)
    }

    /// Writes the fields as an object of strings.
    private func writeParameters(of event: borrowing MappedEvent, into draft: inout Draft) {
        var fields = event.fields()
        draft.json.beginObject()
        while let (key, value) = fields.next(in: event, droppedTo: &draft.fixes) {
            guard draft.beginField(key, of: event, limit: .max, unit: .utf16, isReserved: { _ in false }) else {
                continue
            }
            switch event.tape[value].kind {
            case .number, .true, .false, .null: draft.json.string(plain: event.tape.bytes(of: value))
            case .string: draft.value(value, of: event, limit: .max)
            case .array, .object: draft.nestedString(value, of: event, limit: .max, unit: .utf16)
            }
        }
        draft.json.endObject()
    }
}

extension Flurry {
    static let name = "flurry"
    static let whyNotDelivered: String? =
        "flurry was switched off on 2024-03-15; there is nothing to deliver to, its files are an archive"
}

extension Destination {
    /// Shut down in 2024; an archive in the format of its raw-data download.
    package static var flurry: Destination { Destination(Flurry.self) }
}

internal import WaybillJSON

/// Splits a record shared by several events into one record per event.
///
///     {"app_instance_id":…,"events":[A,B],"user_properties":…}
///         ─▶ {"app_instance_id":…,"events":[A],"user_properties":…}    {"app_instance_id":…,"events":[B]}
///
/// The properties belong to the first event: an event with properties starts a new record.
package enum SharedRecord {
    /// Calls `body` with each event of a record as if it shared none.
    ///
    /// - Parameter ids: the record's line of `.ids`.
    package static func visit(
        _ record: UnsafeRawBufferPointer, ids: [UInt8],
        _ body: (_ record: UnsafeRawBufferPointer, _ id: UnsafeRawBufferPointer) -> Void
    ) {
        ids.withUnsafeBytes { ids in
            guard ids.contains(UInt8(ascii: ",")) else { return body(record, ids) }
            let ids = ids.split(separator: UInt8(ascii: ","))
            let records = Self.split(Array(record), eventCount: ids.count)
            for (index, id) in ids.enumerated() {
                records[min(index, records.count - 1)].withUnsafeBytes {
                    body($0, UnsafeRawBufferPointer(rebasing: id))
                }
            }
        }
    }

    /// The records of the single events; the whole record if it is not shared.
    package static func split(_ record: [UInt8], eventCount: Int) -> [[UInt8]] {
        guard eventCount > 1, let events = JSONValue(record)?["events"], let elements = events.elements,
            !elements.isEmpty
        else {
            return [record]
        }
        let head = record[...events.range.lowerBound]
        let tail = record[(events.range.upperBound - 1)...]
        return elements.enumerated().map { index, element in
            Array(head) + Array(record[element.range]) + (index == 0 ? Array(tail) : Array("]}".utf8))
        }
    }
}

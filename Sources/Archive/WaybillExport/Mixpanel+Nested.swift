internal import WaybillJSON

extension Mixpanel {
    /// Writes a list, cut to fit, or an object, as a string if it does not fit.
    func writeNested(
        _ index: Int, of event: borrowing MappedEvent, listByteCountMax: Int = Limits.Mixpanel.nestedByteCountMax,
        into draft: inout Draft
    ) {
        let mark = draft.json.mark
        let isList = event.tape[index].kind == .array
        guard Self.fits(index, of: event, depth: 1, countsOwnElements: !isList) else {
            draft.nestedString(index, of: event, limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes)
            return
        }
        if isList {
            self.writeList(index, of: event, byteCountMax: listByteCountMax, into: &draft)
            return
        }
        let fixes = draft.fixes
        draft.compact(index, of: event, limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes)
        if draft.json.output.count - mark.byteCount > Limits.Mixpanel.nestedByteCountMax {
            draft.json.rewind(to: mark)
            draft.fixes = fixes
            draft.nestedString(index, of: event, limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes)
        }
    }

    private func writeList(
        _ list: Int, of event: borrowing MappedEvent, byteCountMax: Int, into draft: inout Draft
    ) {
        let start = draft.json.output.count
        var element = list + 1
        var count = 0
        draft.json.beginArray()
        while element < Int(event.tape[list].next) {
            let mark = draft.json.mark
            let fixes = draft.fixes
            draft.compact(element, of: event, limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes)
            // The closing bracket follows.
            if count == Limits.Mixpanel.elementCountMax
                || draft.json.output.count - start >= byteCountMax
            {
                draft.json.rewind(to: mark)
                draft.fixes = fixes
                draft.fixes.count(.truncateValue)
                break
            }
            count += 1
            element = Int(event.tape[element].next)
        }
        draft.json.endArray()
    }

    /// Whether depth and number of elements are within Mixpanel's limits.
    private static func fits(
        _ index: Int, of event: borrowing MappedEvent, depth: Int, countsOwnElements: Bool = true
    ) -> Bool {
        let entry = event.tape[index]
        guard entry.kind == .array || entry.kind == .object else { return true }
        guard depth <= Limits.Mixpanel.depthMax else { return false }
        let step = entry.kind == .object ? 1 : 0
        var count = 0
        var child = index + 1 + step
        while child < Int(entry.next) + step {
            count += 1
            guard !countsOwnElements || count <= Limits.Mixpanel.elementCountMax else { return false }
            guard Self.fits(child, of: event, depth: depth + 1) else { return false }
            child = Int(event.tape[child].next) + step
        }
        return true
    }
}

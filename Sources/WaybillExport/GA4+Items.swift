internal import WaybillJSON

extension GA4 {
    /// Item parameters that the reference lists; all others are custom (reference, "Item parameters").
    private static let itemParameters: [StaticString] = [
        "affiliation", "coupon", "creative_name", "creative_slot", "currency", "discount", "index", "item_brand",
        "item_category", "item_category2", "item_category3", "item_category4", "item_category5", "item_id",
        "item_list_id", "item_list_name", "item_name", "item_variant", "location_id", "price", "promotion_id",
        "promotion_name", "quantity",
    ]

    /// Whether a list contains only objects whose values are all scalars.
    static func isListOfFlatObjects(_ list: Int, _ event: borrowing MappedEvent) -> Bool {
        var item = list + 1
        while item < Int(event.tape[list].next) {
            guard event.tape[item].kind == .object else { return false }
            var members = event.tape.members(of: item)
            while let (_, value) = members.next(in: event.tape) {
                switch event.tape[value].kind {
                case .array, .object: return false
                case .null, .false, .true, .number, .string: continue
                }
            }
            item = Int(event.tape[item].next)
        }
        return true
    }

    /// Writes a list of flat objects; each keeps its first ten custom parameters.
    func writeItems(_ list: Int, of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.json.beginArray()
        var item = list + 1
        while item < Int(event.tape[list].next) {
            self.writeItem(item, of: event, into: &draft)
            item = Int(event.tape[item].next)
        }
        draft.json.endArray()
    }

    private func writeItem(_ item: Int, of event: borrowing MappedEvent, into draft: inout Draft) {
        var room = Limits.GA4.customParametersPerItemMax
        var members = event.tape.members(of: item)
        draft.itemNames.removeAll()
        draft.json.beginObject()
        while let (key, value) = members.next(in: event.tape) {
            if event.tape[value].kind == .null {
                draft.fixes.count(.dropNull)
                continue
            }
            let name = draft.key(key, of: event, rule: .parameter)
            let isCustom = !Self.itemParameters.contains { JSONText.equals(name, isEscaped: false, $0) }
            if isCustom, room == 0 {
                draft.fixes.count(.dropField)
                continue
            }
            guard draft.beginItemField(name) else { continue }
            if isCustom { room -= 1 }
            draft.scalarOrNestedString(value, of: event, limit: Limits.GA4.valueCharacterCountMax, unit: .utf16)
        }
        draft.json.endObject()
    }
}

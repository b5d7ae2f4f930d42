internal import WaybillJSON

extension GA4 {
    /// Item parameters that the reference lists; all others are custom (reference, "Item parameters").
    private static let itemParameters: [StaticString] = [
        "affiliation", "coupon", "creative_name", "creative_slot", "currency", "discount", "index", "item_brand",
        "item_category", "item_category2", "item_category3", "item_category4", "item_category5", "item_id",
        "item_list_id", "item_list_name", "item_name", "item_variant", "location_id", "price", "promotion_id",
        "promotion_name", "quantity",
    ]

    /// Writes a list of items; the first 200 remain, each with its first 27 custom parameters.
    ///
    /// An item that is not an object, or has neither `item_id` nor `item_name`, is dropped: GA4 has no use for it.
    func writeItems(_ list: Int, of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.json.beginArray()
        var item = list + 1
        var room = Limits.GA4.itemCountMax
        while item < Int(event.tape[list].next) {
            defer { item = Int(event.tape[item].next) }
            let mark = draft.json.mark
            let fixes = draft.fixes
            if room > 0, event.tape[item].kind == .object, self.writeItem(item, of: event, into: &draft) {
                room -= 1
            } else {
                draft.json.rewind(to: mark)
                draft.fixes = fixes
                draft.fixes.count(.dropItem)
            }
        }
        draft.json.endArray()
    }

    /// Writes one item; false if it says nowhere what it is.
    private func writeItem(_ item: Int, of event: borrowing MappedEvent, into draft: inout Draft) -> Bool {
        var isNamed = false
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
            isNamed =
                isNamed || JSONText.equals(name, isEscaped: false, "item_id")
                || JSONText.equals(name, isEscaped: false, "item_name")
            draft.scalarOrNestedString(value, of: event, limit: Limits.GA4.valueCharacterCountMax, unit: .utf16)
        }
        draft.json.endObject()
        return isNamed
    }
}

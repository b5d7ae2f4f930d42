internal import Waybill

extension EventView {
    /// The event's fields and all changes of traits: `songs`, `traits_once.first_seen`, `traits_add.visits`.
    var contents: [(name: String, value: StoredValue)] {
        self.fields.map { ($0.name, $0.value) }
            + self.traits(.setOnce).map { ("traits_once.\($0.name)", $0.value) }
            + self.traits(.add).map { ("traits_add.\($0.name)", $0.value) }
    }
}

import Testing
import WaybillSystem

@testable import WaybillTail

struct RegistryChangesTests {
    private let key = StreamKey(slot: 1, generation: 0)

    @Test func `what is written waits for a sync, and a rewrite needs none`() {
        var changes = RegistryChanges(removing: ["x"])
        #expect(!changes.isEmpty && changes.removedIDs == ["x"])
        changes.insert(self.key)
        changes.appended()
        changes.written()
        #expect(changes.streams.isEmpty && changes.removedIDs.isEmpty)
        #expect(!changes.isEmpty && changes.isUnsynchronized)
        changes.synchronized()
        #expect(changes.isEmpty)
        changes.appended()
        changes.rewritten(byteCount: 70)
        changes.add(byteCount: -20)
        #expect(changes.isEmpty && changes.byteCount == 50)
    }

    @Test func `a checkpoint is due at once, and then after each interval`() {
        var changes = RegistryChanges(removing: [])
        let start = MonotonicTime(nanoseconds: 5_000_000_000)
        #expect(changes.isDue(start, every: .seconds(1)))
        changes.checkpointed(start)
        #expect(!changes.isDue(start + .milliseconds(999), every: .seconds(1)))
        #expect(changes.isDue(start + .seconds(1), every: .seconds(1)))
    }
}

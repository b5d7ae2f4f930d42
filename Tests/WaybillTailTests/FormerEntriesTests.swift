import Testing
import WaybillSystem

@testable import WaybillTail

struct FormerEntriesTests {
    private func entry(_ id: String, inode: UInt64 = 7, incarnation: Int = 0, isSegment: Bool = false) -> RegistryEntry
    {
        let status = FileStatus(
            identity: FileIdentity(device: 1, inode: inode), kind: .regular, byteCount: 9, modified: 1, birth: 2)
        var file = TailedFile(
            source: 0, origin: isSegment ? .segment(id: id) : .foreign, path: "/log/\(id)", status: status)
        file.incarnation = incarnation
        var entry = RegistryEntry(file, source: "app")
        entry.id = id
        return entry
    }

    @Test func `entries are found by inode and by id, and written in the order of their ids`() {
        var former = FormerEntries()
        for entry in [entry("c", inode: 8), entry("a"), entry("b", incarnation: 1), entry("0", isSegment: true)] {
            former.insert(entry)
        }
        #expect(former.inodes == [7, 8] && former.entries(of: 7).map(\.id) == ["a", "b"])
        #expect(former.unfrozen.map(\.id) == ["0", "a", "b", "c"])
        #expect(former.segments["0"]?.id == "0" && former.entries(of: 9).isEmpty)
        former.take(former.entries(of: 7)[0])
        former.take(former.entries(of: 8)[0])
        #expect(former.inodes == [7] && former.foreign.map(\.id) == ["b"])
    }

    @Test func `a frozen entry stays for its inode and is not written, until its file is set aside again`() {
        var former = FormerEntries()
        let entry = self.entry("a")
        former.insert(entry)
        let isFirst = (0..<2).map { _ in former.freeze(entry) }
        #expect(isFirst == [true, false])
        former.insertGone("a")
        #expect(former.unfrozen.isEmpty && former.entries(of: 7) == [entry] && former.isGone("a"))
        former.setAside(entry)
        #expect(former.unfrozen == [entry] && former.entries(of: 7) == [entry])
        #expect(!former.isFrozen(entry) && !former.isGone("a"))
    }

    @Test func `of two entries that did not change since, the one that was followed since the start is later`() {
        var former = FormerEntries()
        let (loaded, present) = (self.entry("a"), self.entry("b"))
        former.insert(loaded)
        former.insert(present)
        #expect(!former.hasLater(than: loaded, of: present.identity))
        former.setAside(present)
        #expect(former.hasLater(than: loaded, of: present.identity))
        former.setAside(loaded)
        #expect(!former.hasLater(than: loaded, of: present.identity))
    }

    @Test func `of one file's entries on several devices, the one of which most was shipped counts`() {
        var shipped = self.entry("a-2-7")
        var renumbered = self.entry("a-1-7")
        shipped.path = renumbered.path
        shipped.held = [HeldOffset(receiver: 1, incarnation: 0, offset: 700, digest: nil)]
        // A clock went back.
        (shipped.modified, renumbered.modified) = (9, 10)
        for entries in [[shipped, renumbered], [renumbered, shipped]] {
            var former = FormerEntries()
            for entry in entries { former.insert(entry) }
            #expect(former.entry(at: renumbered.path) == shipped)
        }
        #expect(renumbered.isLater(than: shipped) && shipped.isAhead(of: renumbered))
    }

    @Test func `a change is made where there is one, to entries of every kind`() {
        var former = FormerEntries()
        for entry in [entry("a"), entry("b"), entry("0", isSegment: true)] { former.insert(entry) }
        former.update { entry in
            guard entry.id != "b" else { return nil }
            var entry = entry
            entry.byteCount = 1
            return entry
        }
        #expect(former.foreign.map(\.byteCount) == [1, 9] && former.segments["0"]?.byteCount == 1)
    }
}

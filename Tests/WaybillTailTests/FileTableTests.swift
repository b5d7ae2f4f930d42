import Testing
import WaybillProtocol
import WaybillSystem

@testable import WaybillTail

@Suite struct FileTableTests {
    private func file(_ path: String, inode: UInt64) -> TailedFile {
        let status = FileStatus(
            identity: FileIdentity(device: 1, inode: inode), kind: .regular, byteCount: 10, modified: 1, birth: 0)
        return TailedFile(source: 0, origin: .foreign, path: path, status: status)
    }

    @Test(arguments: [
        "a.log", "/a.log", "/log/a.log", "/log/", "", "/log/" + String(repeating: "n", count: 31),
        "/log/" + String(repeating: "n", count: 32), "/log/ä.log", "/log/a\u{308}.log",
    ])
    func `a place is its path`(path: String) {
        let place = FilePlace(path)
        #expect(place.path == path)
        #expect(place.leads(to: path) && !place.leads(to: path + "n") && !place.leads(to: "n" + path))
        #expect(place.hash == FilePlace.hash(of: path))
    }

    @Test func `folders and names that differ in their bytes alone are two`() {
        var table = FileTable()
        let name = String(repeating: "n", count: 32)
        let paths = ["/ä/\(name)ä", "/a\u{308}/\(name)ä", "/ä/\(name)a\u{308}"]
        let keys = paths.enumerated().map { table.insert(self.file($0.element, inode: UInt64($0.offset))) }
        for key in keys { table.indexPath(of: key) }
        for (key, path) in zip(keys, paths) {
            #expect(table[key].path.utf8.elementsEqual(path.utf8))
            #expect(table.key(at: path) == key)
        }
    }

    @Test func `a file is found by path and identity until it is moved, taken out or removed`() {
        var table = FileTable()
        let first = table.insert(self.file("/log/a.log", inode: 1))
        #expect(table.key(at: "/log/a.log") == nil && table.key(of: FileIdentity(device: 1, inode: 1)) == nil)
        table.indexIdentity(of: first)
        table.indexPath(of: first)
        #expect(table.key(at: "/log/a.log") == first && table.key(of: FileIdentity(device: 1, inode: 1)) == first)
        table.move(first, to: "/old/a.log")
        #expect(table.key(at: "/log/a.log") == nil && table.key(at: "/old/a.log") == first)
        #expect(table[first].path == "/old/a.log")
        let second = table.insert(self.file("/old/a.log", inode: 1))
        table.indexIdentity(of: second)
        table.indexPath(of: second)
        #expect(table.key(at: "/old/a.log") == second && table.key(of: FileIdentity(device: 1, inode: 1)) == second)
        table.remove(first)
        #expect(table.key(at: "/old/a.log") == second && !table.contains(first))
        table.remove(second)
        #expect(table.key(at: "/old/a.log") == nil && table.key(of: FileIdentity(device: 1, inode: 1)) == nil)
        let third = table.insert(self.file("/log/a.log", inode: 2))
        #expect(third != first && third != second && table.count == 1)
    }

    @Test func `a file comes to rest with its anchor, and a copy keeps what it had`() {
        var file = self.file("/log/a.log", inode: 1)
        let anchors = [5, 10].map { Anchor(end: $0, digest: ProofDigest([UInt8](repeating: UInt8($0), count: 16))) }
        file.descriptor = FileID(rawValue: 3)
        for anchor in anchors { file.addAnchor(anchor) }
        file.cursor = 10
        file.descriptor = nil
        #expect(file.anchors == anchors)
        file.removeAnchors(before: 10)
        file.acked = 10
        let rested = file
        #expect(file.anchors == [anchors[1]] && file.descriptor == nil)
        file.addAnchor(anchors[0])
        file.incarnation = 2
        #expect(rested.anchors == [anchors[1]] && rested.incarnation == 0)
        #expect(file.anchors == [anchors[1], anchors[0]] && file.incarnation == 2)
        var moved = rested
        moved.acked = 12
        #expect(moved.anchors == [anchors[1]])
        moved.replaceAnchors([])
        #expect(moved.anchors == [] && rested.anchors == [anchors[1]])
    }

    @Test func `of very many fresh files the newest are looked at, and it is known that these are not all`() {
        var fresh = FreshFiles()
        let start = MonotonicTime(nanoseconds: 0)
        let keys = (0...(3 * FreshFiles.countMax)).map { StreamKey(slot: $0, generation: 0) }
        for (number, key) in keys.enumerated() { fresh.note(key, start + .milliseconds(number)) }
        #expect(!fresh.isWhole)
        let due = fresh.due(start + .seconds(60)) { _ in true }
        #expect(due == Array(keys.reversed().prefix(FreshFiles.countMax)))
        #expect(!fresh.isWhole)
        #expect(fresh.due(start + FreshFiles.age + .seconds(60)) { _ in true }.isEmpty && fresh.isWhole)
    }

    @Test func `a file at rest is small`() {
        #expect(MemoryLayout<TailedFile?>.stride <= 216)
    }
}

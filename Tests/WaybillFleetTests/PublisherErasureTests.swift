import Testing
import WaybillFleet
import WaybillSystem
import WaybillTestSupport

/// Days from which people were erased, in the bucket of several mergers.
@Suite struct PublisherErasureTests {
    private static let day = "archive/env=prod/bundle=com.example.shop/date=2026-11-20"

    /// A merger's disk with the day at a revision: each later one lacks another person's lines.
    private static func disk(revision: Int, erased: Int, parts: [String] = ["part-00001"]) throws -> FaultyFiles {
        let files = FaultyFiles()
        let folder = "/data/\(Self.day)"
        try files.createDirectories(folder)
        let names = parts.map { "{\"name\":\"\($0).ndjson.gz\"}" }.joined(separator: ",")
        let count = erased > 0 ? "\"erased\":\(erased)," : ""
        files.place("\(folder)/manifest.json", Array("{\"revision\":\(revision),\(count)\"files\":[\(names)]}".utf8))
        for part in parts {
            files.place("\(folder)/\(part).ndjson.gz", Array("\(part) without \(erased)".utf8))
            files.place("\(folder)/\(part).sources", Array("runs of \(part) without \(erased)".utf8))
        }
        files.place("\(folder)/_SUCCESS", [])
        // What a day has next to its parts, none of which is published.
        files.place("\(folder)/late-0000\(revision).ndjson", Array("open".utf8))
        files.place("\(folder)/part-00001.ndjson.gz.tmp", Array("unfinished".utf8))
        return files
    }

    private static func publish(
        _ files: FaultyFiles, _ store: MemoryStore
    ) throws(UploadFailure) -> Publisher<FaultyFiles>.Outcome {
        try Publisher(root: "/data", files: files, store: store).publish(Self.day)
    }

    /// The bucket has exactly the day of this disk.
    private static func expect(_ files: FaultyFiles, in store: MemoryStore, _ comment: Comment = "") {
        let folder = "/data/\(Self.day)/"
        var expected: [String: [UInt8]] = [:]
        for (path, bytes) in files.files(below: "/data") where !path.hasSuffix(".ndjson") && !path.hasSuffix(".tmp") {
            expected["\(Self.day)/\(path.dropFirst(folder.utf8.count))"] = bytes
        }
        #expect(store.objects == expected, comment)
    }

    @Test func `only the manifest's parts are published, and they are there before it`() throws {
        let files = try Self.disk(revision: 1, erased: 0)
        let store = MemoryStore()
        #expect(try Self.publish(files, store).createdCount == 3)
        Self.expect(files, in: store)
        let erased = try Self.disk(revision: 2, erased: 3)
        let order = Lock<[String]>([])
        store.setFaults { call in
            if call.verb == .replace { order.withLock { $0.append(call.key) } }
            return nil
        }
        let outcome = try Self.publish(erased, store)
        #expect(outcome.replacedCount == 3)
        #expect(outcome.different == [])
        #expect(outcome.isErased)
        #expect(order.withLock { $0.last } == "\(Self.day)/manifest.json")
        Self.expect(erased, in: store)
        // Nothing is left to do.
        let again = try Self.publish(erased, store)
        #expect(again.createdCount + again.replacedCount + again.deletedCount == 0)
    }

    @Test func `parts that differ without an erasure stay, and are named`() throws {
        let store = MemoryStore()
        _ = try Self.publish(try Self.disk(revision: 1, erased: 0), store)
        let other = try Self.disk(revision: 2, erased: 0)
        other.place("/data/\(Self.day)/part-00001.ndjson.gz", Array("something else".utf8))
        let outcome = try Self.publish(other, store)
        #expect(outcome.different == ["\(Self.day)/part-00001.ndjson.gz"])
        #expect(outcome.replacedCount == 0)
        #expect(store.objects["\(Self.day)/part-00001.ndjson.gz"] == Array("part-00001 without 0".utf8))
    }

    /// Whoever was first with a part that differs has the day.
    @Test(arguments: [1, 2])
    func `a day has the parts of one merger where two have cut it differently`(shared: Int) throws {
        let parts = (1...3).map { "part-0000\($0)" }
        let first = try Self.disk(revision: 1, erased: 0, parts: parts)
        let second = try Self.disk(revision: 2, erased: 0, parts: parts)
        for number in shared...3 {
            second.place("/data/\(Self.day)/part-0000\(number).ndjson.gz", Array("cut \(number) differently".utf8))
        }
        let store = MemoryStore()
        // The first one ends after its first part that differs.
        let key = "\(Self.day)/part-0000\(shared).ndjson.gz"
        let isOver = Lock(false)
        store.setFaults { call in
            if isOver.withLock({ $0 }) { return .refused(.unreachable) }
            if call.key == key, call.verb == .create { isOver.withLock { $0 = true } }
            return nil
        }
        #expect(throws: UploadFailure.self) { try Self.publish(first, store) }
        store.setFaults(nil)
        let before = store.objects
        let outcome = try Self.publish(second, store)
        #expect(outcome.different == [key])
        #expect(store.objects == before, "nothing of the second is there")
        _ = try Self.publish(first, store)
        Self.expect(first, in: store)
    }

    @Test(arguments: [(1, 0), (2, 3)])
    func `a merger with an older revision brings nothing back`(revision: Int, erased: Int) throws {
        let store = MemoryStore()
        let newest = try Self.disk(revision: 3, erased: 7)
        _ = try Self.publish(newest, store)
        let outcome = try Self.publish(try Self.disk(revision: revision, erased: erased), store)
        #expect(outcome.createdCount + outcome.replacedCount + outcome.deletedCount == 0)
        #expect(outcome.different == [])
        Self.expect(newest, in: store)
    }

    /// A merger is paused in the middle of each of its writes; meanwhile another one publishes the next revision, and then
    /// the write arrives.
    @Test func `what a paused merger wrote last is put right at the next look`() throws {
        for write in 0..<3 {
            let store = MemoryStore()
            _ = try Self.publish(try Self.disk(revision: 1, erased: 0), store)
            let paused = try Self.disk(revision: 2, erased: 3)
            let count = Lock(0)
            store.setFaults { call in
                guard call.verb == .replace else { return nil }
                return count.withLock { number in
                    defer { number += 1 }
                    return number == write ? .late : nil
                }
            }
            #expect(throws: UploadFailure.self) { try Self.publish(paused, store) }
            store.setFaults(nil)
            let newest = try Self.disk(revision: 3, erased: 7)
            _ = try Self.publish(newest, store)
            store.deliverLate()
            let look = try Self.publish(newest, store)
            #expect(look.replacedCount == 1, "write \(write)")
            Self.expect(newest, in: store, "write \(write)")
            // It wakes up, and leaves everything as it is.
            _ = try Self.publish(paused, store)
            Self.expect(newest, in: store, "write \(write), awake")
        }
    }

    @Test func `a refusal or a lost answer at any call is made good by the next attempt`() throws {
        let older = try Self.disk(revision: 1, erased: 0, parts: ["part-00001", "late-00001"])
        let newer = try Self.disk(revision: 3, erased: 3, parts: ["part-00001", "late-00001"])
        for fault in [MemoryStore.Fault.refused(.busy), .unanswered, .late] {
            var call = 0
            while true {
                let store = MemoryStore()
                _ = try Self.publish(older, store)
                let (start, number) = (store.callCount, call)
                store.setFaults { $0.number == start + number ? fault : nil }
                let failed: Bool
                do throws(UploadFailure) {
                    _ = try Self.publish(newer, store)
                    failed = false
                } catch {
                    failed = true
                }
                store.setFaults(nil)
                if !failed { break }
                _ = try Self.publish(newer, store)
                Self.expect(newer, in: store, "\(fault) at call \(call)")
                store.deliverLate()
                Self.expect(newer, in: store, "\(fault) at call \(call), late")
                call += 1
            }
            #expect(call > 10)
        }
    }

    @Test func `objects that no revision has again are deleted, and no others`() throws {
        let store = MemoryStore()
        _ = try Self.publish(try Self.disk(revision: 1, erased: 0), store)
        let stale = ["part-00001.ndjson", "late-00001.ndjson", "late-00002.sources"]
        let kept = ["part-00001.delivered", "late-00003.ndjson.gz", "late-00003.sources", "notes.txt", "dead/x.ndjson"]
        for name in stale + kept { store.place("\(Self.day)/\(name)", Array("x".utf8)) }
        let outcome = try Self.publish(try Self.disk(revision: 3, erased: 3), store)
        #expect(outcome.deletedCount == stale.count)
        for name in stale { #expect(store.objects["\(Self.day)/\(name)"] == nil, "\(name)") }
        for name in kept { #expect(store.objects["\(Self.day)/\(name)"] != nil, "\(name)") }
    }

    @Test func `the runs that fit the manifest stay`() throws {
        let store = MemoryStore()
        let first = try Self.disk(revision: 2, erased: 3)
        _ = try Self.publish(first, store)
        // Another merger has the same lines, and other words for where they are from.
        let second = try Self.disk(revision: 2, erased: 3)
        second.place("/data/\(Self.day)/part-00001.sources", Array("other words".utf8))
        second.place(
            "/data/\(Self.day)/manifest.json",
            Array("{\"revision\":2,\"erased\":3,\"files\":[{\"name\":\"part-00001.ndjson.gz\",\"sources\":1}]}".utf8))
        let outcome = try Self.publish(second, store)
        #expect(outcome.replacedCount == 0)
        Self.expect(first, in: store)
    }
}

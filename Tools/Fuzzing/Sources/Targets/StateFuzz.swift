internal import WaybillSystem
internal import WaybillTestSupport

/// State stores whose files were damaged: they open, what they hold is a state that once was, and a loss is reported.
enum StateFuzz {
    private static let path = "/state/x.state"

    @Sendable static func run(_ input: [UInt8]) throws {
        try Self.checkImage(input)
        var input = FuzzInput(input)
        let disk = FaultyFiles()
        try disk.createDirectories("/state")
        var history: [[String: String]] = [[:]]
        // Values long enough that the log is rewritten now and then.
        let filler = String(repeating: "x", count: input.number(below: 16) == 0 ? 20_000 : 0)
        for _ in 0..<(1 + input.number(below: 3)) {
            var store = try StateStore(path: Self.path, files: disk)
            for _ in 0..<(1 + input.number(below: 4)) {
                var changes: [String: String?] = [:]
                for _ in 0..<(1 + input.number(below: 3)) {
                    let key = "k\(input.number(below: 4))"
                    changes[key] = .some(input.number(below: 4) == 0 ? nil : "\(input.byte()) \(filler)")
                }
                try store.commit(changes)
                history.append(store.entries)
            }
        }
        disk.kill()
        let before = disk.tree("/state")
        while !input.isAtEnd { try Self.damage(disk, &input) }
        try Self.judge(disk, history, isIntact: before == disk.tree("/state"))
    }

    private static func damage(_ disk: FaultyFiles, _ input: inout FuzzInput) throws {
        let paths = disk.tree("/state").keys.sorted()
        guard !paths.isEmpty else {
            _ = input.rest()
            return
        }
        let path = paths[input.number(below: paths.count)]
        var bytes = disk.bytes(of: path) ?? []
        // Near the head, where commits are small, or anywhere.
        let start = input.number(below: max(1, min(bytes.count, input.bool() ? 200 : 1 << 20)))
        let end = min(bytes.count, start + 1 + input.number(below: 40))
        switch input.number(below: 8) {
        case 0 where !bytes.isEmpty: bytes[start] ^= 1 << (input.byte() & 7)
        case 1: bytes.removeSubrange(start...)
        case 2: for index in start..<end { bytes[index] = 0 }
        case 3: bytes.insert(contentsOf: bytes[start..<end], at: end)
        case 4: bytes.removeSubrange(start..<end)
        case 5: bytes.insert(contentsOf: input.bytes(1 + input.number(below: 20)), at: start)
        case 6: bytes.append(contentsOf: "+ k1 torn".utf8)
        default:
            try disk.unlink(path)
            return
        }
        disk.place(path, bytes)
    }

    private static func judge(_ disk: FaultyFiles, _ history: [[String: String]], isIntact: Bool) throws {
        let head = disk.bytes(of: Self.path)
        var store = try StateStore(path: Self.path, files: disk)
        try require(history.contains(store.entries), "a state that never was: \(store.entries.keys.sorted())")
        if isIntact {
            try require(store.entries == history.last, "an intact file holds an older state")
            try require(store.recovery.tornByteCount == 0 && !store.recovery.isPrevious, "\(store.recovery)")
        }
        let recovery = store.recovery
        let isSilent = recovery.tornByteCount == 0 && recovery.damagedPaths.isEmpty && !recovery.isPrevious
        if store.entries != history.last, isSilent, let head, !head.isEmpty {
            // Only a file that ends between two commits says nothing of what is missing.
            let image = StateImage(bytes: head)
            try require(image?.validByteCount == head.count, "a loss without a word")
        }
        var expected = store.entries
        try store.commit(["k9": "new"])
        expected["k9"] = "new"
        disk.kill()
        let again = try StateStore(path: Self.path, files: disk)
        try require(again.entries == expected, "what was committed after damage is not there")
        try require(again.recovery.tornByteCount == 0 && !again.recovery.isPrevious, "\(again.recovery)")
    }

    /// Any bytes as a file, and as the commits behind a head.
    private static func checkImage(_ input: [UInt8]) throws {
        for bytes in [input, Array("waybill-state 1\n".utf8) + input] {
            guard let image = StateImage(bytes: bytes) else { continue }
            try require(image.validByteCount <= bytes.count, "more valid bytes than bytes")
            let again = StateImage(bytes: Array(bytes[..<image.validByteCount]))
            try require(again?.entries == image.entries, "whole commits alone say something else")
        }
    }
}

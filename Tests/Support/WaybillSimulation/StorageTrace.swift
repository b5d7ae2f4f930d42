internal import WaybillSystem
internal import WaybillTestSupport

/// Prints a life of a disk: its steps, and what each of them left in archive, quarantine and checkpoints.
///
///     process 2
///     recovered at 4711; cut 2 files by 96 bytes
///       fault: 50 % of the synchronize of /data/state/archive.state, and the process dies
///       /data/archive/env=prod/…/part-00001.ndjson: 96 bytes, lines 1 4 5
///       /data/archive/env=prod/…/late-00001.ndjson: gone
final class StorageTrace {
    private let disk: SimulatedDisk
    private let print: (String) -> Void
    private var known: [String: String] = [:]

    init(_ disk: SimulatedDisk, _ print: @escaping (String) -> Void) {
        self.disk = disk
        self.print = print
    }

    func note(_ text: String) {
        self.print(text)
    }

    /// Prints the files that differ from the last time.
    func noteDisk() {
        var found: [String: String] = [:]
        for folder in ["/data/archive", "/data/quarantine", "/data/state"] {
            for (path, bytes) in self.disk.memory.files(below: folder) { found[path] = Self.text(path, bytes) }
        }
        for path in Set(found.keys).union(self.known.keys).sorted() where found[path] != self.known[path] {
            self.print("  \(path): \(found[path] ?? "gone")")
        }
        self.known = found
    }

    /// The length of a file, and which lines are in it.
    private static func text(_ path: String, _ bytes: [UInt8]) -> String {
        let isSealed = path.contains(".ndjson.gz") || path.contains(".ndjson.erase.gz")
        let lines = (isSealed ? SimulatedDisk.inflate(bytes) : bytes).split(separator: 0x0A)
        let count = "\(bytes.count) bytes"
        guard path.contains(".ndjson") else { return "\(count), checksum \(CRC32.checksum(of: bytes))" }
        let numbers = lines.map { line in
            let text = String(decoding: line, as: UTF8.self)
            return text.firstRange(of: "\"n\":").map { String(text[$0.upperBound...].prefix { $0.isNumber }) } ?? "?"
        }
        return "\(count), lines \(numbers.joined(separator: " "))"
    }
}

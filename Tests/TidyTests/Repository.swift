import Foundation

/// The repository that these tests are compiled in: its files and its manifest, read once.
struct Repository: Sendable {
    /// Paths of all files that are tracked or about to be, in order.
    let paths: [String]
    /// Those of them that are symbolic links.
    let links: [String]
    /// Swift and Markdown; through links, too.
    let files: [SourceFile]
    let manifest: Manifest

    static let root = URL(filePath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// Read by the first test that asks.
    static let own = Result { try Repository() }

    private init() throws {
        let listed = try Self.output(of: ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        let manager = FileManager.default
        var (paths, links, files): ([String], [String], [SourceFile]) = ([], [], [])
        for path in Set(listed.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }).sorted() {
            let url = Self.root.appending(path: path)
            guard let kind = try? manager.attributesOfItem(atPath: url.path)[.type] as? FileAttributeType else {
                continue  // Deleted, and not yet committed.
            }
            paths.append(path)
            if kind == .typeSymbolicLink { links.append(path) }
            guard [".swift", ".md", ".tutorial"].contains(where: path.hasSuffix) else { continue }
            files.append(SourceFile(path: path, text: try String(contentsOf: url, encoding: .utf8)))
        }
        self.paths = paths
        self.links = links
        self.files = files
        // A build folder of its own: the test's build may hold the lock of the package's.
        let scratch = manager.temporaryDirectory.appending(path: "waybill-tidy-\(UUID())")
        defer { try? manager.removeItem(at: scratch) }
        self.manifest = try Manifest(
            json: Self.output(of: ["swift", "package", "--scratch-path", scratch.path, "dump-package"]))
    }

    /// What a command prints, run at the repository's root.
    private static func output(of command: [String]) throws -> Data {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = command
        process.currentDirectoryURL = Self.root
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw CommandFailure(command: command) }
        return output
    }
}

/// A command that did not end well.
struct CommandFailure: Error {
    let command: [String]
}

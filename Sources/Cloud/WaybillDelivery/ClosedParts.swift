internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillProjection
internal import WaybillSystem

/// A closed part that is not delivered yet.
struct PendingPart: Hashable {
    let env: DeploymentEnvironment
    /// `env=prod/date=2026-11-20`.
    let day: String
    /// `part-00000`.
    let name: String
    let manifest: PartManifest

    /// Its key in the state.
    var key: String { "\(Self.keyPrefix)\(self.day)/\(self.name)" }
    var dayKey: String { "day:\(self.day)" }

    static let keyPrefix = "part:"

    /// The digits of its name.
    var number: String { String(self.name.dropFirst("part-".utf8.count)) }
}

/// Finds the closed parts of an export, and remembers which are delivered.
struct ClosedParts<Files: FileSystem> {
    /// `data/exports/ga4`.
    let root: String
    let files: Files
    /// Parts found to be delivered, with the generation of their day, within which a part never changes.
    private var delivered: [String: String] = [:]
    private var deliveredCounts: [String: Int] = [:]
    /// Folders of days that were wholly delivered when they were read.
    private var settled: [String: FileStatus] = [:]

    /// A change so soon after another one may leave the time of a folder as it is.
    private static var timeMillisecondsMin: Int64 { 2000 }

    init(root: String, files: Files) {
        self.root = root
        self.files = files
    }

    /// The day's folder.
    func folder(_ day: String) -> String { Path.join(self.root, day) }

    /// The name of a day's content: `live`, or the name that a replay gave it.
    func generation(of day: String) throws(FileSystemError) -> String {
        guard let bytes = try self.files.contents(of: Path.join(self.folder(day), ".generation"), byteCountMax: 256)
        else { return "live" }
        let text = String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self)
        return text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) }) ? text : "unreadable"
    }

    func manifest(_ day: String, _ name: String) throws(FileSystemError) -> PartManifest? {
        try self.files.contents(of: Path.join(self.folder(day), "\(name).manifest.json"), byteCountMax: 1 << 20)
            .flatMap(PartManifest.init(json:))
    }

    /// Opens a part and compares its bytes with its manifest.
    func open(_ part: PendingPart, of provider: DeliverableProvider) throws(PartError) -> ClosedPart<Files> {
        try ClosedPart(
            stem: Path.join(self.folder(part.day), part.name),
            fileExtension: Exporter.description(of: provider.id).fileExtension, manifest: part.manifest,
            files: self.files)
    }

    /// Every closed part that is not delivered, oldest day first within an environment, and parts with unreadable
    /// manifests.
    ///
    /// A day that was wholly delivered is read again when its folder has changed.
    mutating func pending(
        only env: DeploymentEnvironment?, now: WallTime = .unknown
    ) throws(FileSystemError) -> (parts: [PendingPart], damaged: [String]) {
        var parts: [PendingPart] = []
        var damaged: [String] = []
        for candidate in DeploymentEnvironment.allCases where env == nil || candidate == env {
            let envName = "env=\(candidate.rawValue)"
            guard try self.files.status(at: Path.join(self.root, envName))?.kind == .directory else { continue }
            for date in try self.files.list(Path.join(self.root, envName)) where date.hasPrefix("date=") {
                let day = "\(envName)/\(date)"
                guard let status = try self.files.status(at: self.folder(day)), self.settled[day] != status else {
                    continue
                }
                let found = try self.pending(of: day, candidate)
                parts += found.parts
                damaged += found.damaged
                let age = now.milliseconds - status.modified / 1_000_000
                let isSettled = found.parts.isEmpty && found.damaged.isEmpty && age > Self.timeMillisecondsMin
                self.settled[day] = isSettled ? status : nil
            }
        }
        return (parts, damaged)
    }

    private mutating func pending(
        of day: String, _ env: DeploymentEnvironment
    ) throws(FileSystemError) -> (parts: [PendingPart], damaged: [String]) {
        var parts: [PendingPart] = []
        var damaged: [String] = []
        let generation = try self.generation(of: day)
        self.deliveredCounts[day] = 0
        for name in try self.partNames(of: day) {
            if self.delivered["\(day)/\(name)"] == generation {
                self.deliveredCounts[day, default: 0] += 1
                continue
            }
            guard let manifest = try self.manifest(day, name) else {
                damaged.append("\(day)/\(name)")
                continue
            }
            if try self.isDelivered(day, name, manifest) {
                self.delivered["\(day)/\(name)"] = generation
                self.deliveredCounts[day, default: 0] += 1
            } else {
                self.delivered["\(day)/\(name)"] = nil
                parts.append(PendingPart(env: env, day: day, name: name, manifest: manifest))
            }
        }
        return (parts, damaged)
    }

    private func partNames(of day: String) throws(FileSystemError) -> [String] {
        let suffix = ".manifest.json"
        guard try self.files.status(at: self.folder(day))?.kind == .directory else { return [] }
        return try self.files.list(self.folder(day))
            .filter { $0.hasSuffix(suffix) && PartitionPath.partNumber(of: $0) != nil }
            .map { String($0.dropLast(suffix.utf8.count)) }
            .sorted { (PartitionPath.partNumber(of: $0) ?? 0, $0) < (PartitionPath.partNumber(of: $1) ?? 0, $1) }
    }

    private func isDelivered(
        _ day: String, _ name: String, _ manifest: PartManifest
    ) throws(FileSystemError) -> Bool {
        try self.files.contents(of: self.deliveredPath(day, name), byteCountMax: 256)
            .map { $0.prefix { $0 != 0x0A }.elementsEqual(manifest.sha256.utf8) } ?? false
    }

    /// How many parts of a day are delivered.
    func deliveredCount(of day: String) -> Int {
        self.deliveredCounts[day] ?? 0
    }

    /// Whether a part, `env=prod/date=2026-11-20/part-00000`, was found to be delivered.
    func isKnownDelivered(_ part: String) -> Bool {
        self.delivered[part] != nil
    }

    mutating func setDelivered(_ part: PendingPart, _ generation: String) {
        self.delivered["\(part.day)/\(part.name)"] = generation
        self.deliveredCounts[part.day, default: 0] += 1
    }

    /// The path of the file that marks a part as delivered and holds its SHA-256 on one line.
    func deliveredPath(_ day: String, _ name: String) -> String {
        Path.join(self.folder(day), "\(name).delivered")
    }
}

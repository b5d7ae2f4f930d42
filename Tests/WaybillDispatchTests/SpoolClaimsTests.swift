import Testing
import WaybillAgent
import WaybillProtocol
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// Which spools an agent ships, where it may have fewer descriptors than there are spools.
struct SpoolClaimsTests {
    let files = FaultyFiles()

    init() throws {
        for number in 1...5 { try files.createDirectories("/spools/\(number)") }
    }

    private func folders(_ numbers: Int...) -> Set<PathKey> {
        Set(numbers.map { PathKey("/spools/\($0)") })
    }

    @Test func `with descriptors enough every spool is claimed, and none is left out`() throws {
        let claims = Claims(["/spools/*"], on: files)
        try claims.claim()
        try claims.claim()
        #expect(claims.count == 5)
        #expect(claims.allowed == nil)
        #expect(!claims.isShort && !claims.hasUnserved)
    }

    @Test func `each spool has a turn in a round, and one that waits is not allowed`() throws {
        let claims = Claims(["/spools/*"], countMax: 2, on: files)
        try claims.claim()
        #expect(claims.allowed == folders(1, 2))
        #expect(claims.waiting == ["/spools/3", "/spools/4", "/spools/5"])
        #expect(!claims.pass { _ in false })
        #expect(claims.pass { $0 == PathKey("/spools/1") })
        try claims.claim()
        #expect(claims.allowed == folders(2, 3))
        #expect(claims.pass { _ in true })
        try claims.claim()
        #expect(claims.allowed == folders(4, 5))
        #expect(!claims.hasUnserved)
        // No one waits for a first turn.
        #expect(!claims.pass { _ in true })
        claims.beginRound()
        #expect(claims.pass { _ in true })
        try claims.claim()
        #expect(claims.allowed == folders(1, 2))
    }

    @Test func `a folder with two names is claimed once and allowed under both`() throws {
        let claims = Claims(["/spools/1", "/spools/*"], countMax: 1, on: files)
        try claims.claim()
        #expect(claims.count == 1)
        #expect(claims.allowed == folders(1))
    }

    @Test func `a spool that is gone makes room`() throws {
        let claims = Claims(["/spools/*"], countMax: 1, on: files)
        try claims.claim()
        try files.removeDirectory("/spools/1")
        try claims.claim()
        try claims.claim()
        #expect(claims.allowed == folders(2))
    }

    @Test func `a claim for which no descriptor is left waits, and is neither another agent's nor nobody's`() throws {
        let files = self.files
        files.setFaults { call in
            call.verb == .open && files.memory.openDescriptorCount >= 2 ? .error(Errno.tooManyFiles) : nil
        }
        let claims = Claims(["/spools/*"], on: files)
        try claims.claim()
        #expect(claims.allowed == folders(1, 2))
        // What took the others is still there.
        try claims.claim()
        #expect(claims.waiting.count == 3)
        files.clearFaults()
        #expect(claims.pass { _ in true })
        try claims.claim()
        #expect(claims.allowed == folders(3, 4))
    }

    @Test func `without any descriptor nothing is allowed`() throws {
        files.setFaults { call in call.verb == .open ? .error(Errno.tooManyFiles) : nil }
        let claims = Claims(["/spools/*"], on: files)
        try claims.claim()
        #expect(claims.allowed == [])
        #expect(claims.hasUnserved)
        files.setFaults { call in call.verb == .list ? .error(Errno.tooManyFiles) : nil }
        try claims.claim()
        #expect(claims.allowed == [])
        files.clearFaults()
        try claims.claim()
        #expect(claims.count == 1)
    }

    @Test func `a reload that another agent's spool refuses leaves every claim`() throws {
        let other = Claims(["/spools/5"], on: FaultyFiles(files.memory))
        try other.claim()
        let claims = Claims(["/spools/1", "/spools/2", "/spools/3"], countMax: 2, on: files)
        try claims.claim()
        #expect(throws: FileSystemError.self) { try claims.replace(with: ["/spools/5", "/spools/4"]) }
        #expect(claims.allowed == folders(1, 2))
        #expect(claims.waiting == ["/spools/3"])
        try claims.replace(with: ["/spools/1", "/spools/4"])
        #expect(claims.allowed == folders(1))
        try claims.claim()
        #expect(claims.allowed == nil)
    }

    @Test func `a spool of another agent ends the claim, also when its turn comes`() throws {
        let other = Claims(["/spools/3"], on: FaultyFiles(files.memory))
        try other.claim()
        let claims = Claims(["/spools/*"], countMax: 2, on: files)
        try claims.claim()
        #expect(claims.pass { _ in true })
        let error = #expect(throws: FileSystemError.self) { try claims.claim() }
        #expect(error?.errno == Errno.inUse)
    }

    @Test(arguments: [
        (24, 14, ["/a"], 1, 1), (24, 14, ["/s/*"], 1, 1), (64, 14, ["/s/*"], 21, 21), (64, 14, ["/a", "/b"], 21, 40),
        (64, 14, [], 21, 42), (1_048_576, 14, ["/s/*"], 524_277, 512), (24, 30, ["/s/*"], 1, 1),
    ])
    func `spools get half of the descriptors, or what they need`(
        limit: Int, open: Int, spools: [String], claims: Int, files: Int
    ) throws {
        let name = try #require(AgentName("agent"))
        var configuration = AgentConfiguration(
            name: name, stateDirectory: "/state", receivers: [],
            sources: spools.map { AgentSource(files: .spool(directory: $0), environment: "prod", bundle: "b") })
        configuration.fit(descriptorCountMax: limit, openCount: open)
        #expect(configuration.claimCountMax == claims)
        #expect(configuration.tailLimits.openFileCountMax == files)
    }
}

/// Claims that expectations can look at.
private final class Claims {
    private var claims: SpoolClaims<FaultyFiles>

    init(_ spools: [String], countMax: Int = .max, on files: FaultyFiles) {
        self.claims = SpoolClaims(spools, countMax: countMax, on: files)
    }

    var count: Int { self.claims.count }
    var allowed: Set<PathKey>? { self.claims.allowed }
    var waiting: [String] { self.claims.waiting }
    var isShort: Bool { self.claims.isShort }
    var hasUnserved: Bool { self.claims.hasUnserved }

    func claim() throws { try self.claims.claim() }
    func pass(_ isOver: (PathKey) -> Bool) -> Bool { self.claims.pass(where: isOver) }
    func replace(with spools: [String]) throws { try self.claims.replace(with: spools) }
    func beginRound() { self.claims.beginRound() }
}

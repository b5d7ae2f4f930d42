import ArgumentParser
import WaybillAgent
import WaybillEvent
import WaybillProtocol
import WaybillTail

/// What an agent ships, as options: spools, and files of other programs.
struct AgentSourceOptions: ParsableArguments {
    @Option(help: .key("agent.sources.spool"))
    var spool: [String] = []

    @Option(help: .key("agent.sources.files"))
    var glob: [String] = []

    @Option(help: .key("agent.sources.exclude"))
    var exclude: [String] = []

    @Option(help: .key("agent.sources.env"))
    var env: DeploymentEnvironment?

    @Option(help: .key("agent.sources.bundle"))
    var bundle: String?

    @Option(help: .key("agent.sources.time"))
    var timeMember: String?

    @Option(help: .key("agent.sources.name"))
    var nameMember: String?

    @Option(help: .key("agent.sources.user"))
    var userMember: String?

    @Option(help: .key("agent.sources.anonymous"))
    var anonymousMember: String?

    @Flag(help: .key("agent.sources.follow_links"))
    var followLinks = false

    @Flag(help: .key("agent.sources.poll"))
    var poll = false

    @Option(help: .key("agent.sources.group"))
    var group: String?

    func check() throws {
        if let bundle, !StreamDescription.isBundle(bundle) {
            throw ValidationError("--bundle must have \(StreamDescription.bundleRule)")
        }
        for (option, patterns) in [("--glob", self.glob), ("--exclude", self.exclude), ("--spool", self.spool)] {
            for pattern in patterns {
                guard let problem = SourcePatterns.problem(of: pattern, isSpool: option == "--spool") else { continue }
                throw ValidationError("\(option) '\(pattern)' \(problem)")
            }
        }
        if !self.exclude.isEmpty, self.glob.isEmpty { throw ValidationError("--exclude is for --glob only") }
    }

    /// The sources that the options add to those of a configuration file.
    func sources() throws -> [AgentSource] {
        if let group, let pattern = self.spool.first(where: GlobPattern.hasWildcard) {
            throw ValidationError("--group \(group) is for spools without wildcards; \(pattern) has one")
        }
        var sources = self.spool.map {
            var source = AgentSource(files: .spool(directory: $0), environment: "prod", bundle: "unknown")
            source.group = self.group
            source.isPolled = self.poll
            return source
        }
        guard !self.glob.isEmpty else { return sources }
        guard let env, let bundle else {
            throw ValidationError("--glob needs --env and --bundle, which foreign lines do not contain")
        }
        var source = AgentSource(
            files: .files(patterns: self.glob), environment: env.rawValue, bundle: bundle,
            timeMember: self.timeMember, nameMember: self.nameMember, userMember: self.userMember,
            anonymousMember: self.anonymousMember)
        source.followsLinks = self.followLinks
        source.excludes = self.exclude
        source.isPolled = self.poll
        sources.append(source)
        return sources
    }
}

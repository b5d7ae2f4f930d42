internal import WaybillEvent

extension DeploymentEnvironment {
    /// The raw value, as text that is written without an allocation.
    var staticName: StaticString {
        switch self {
        case .dev: "dev"
        case .internal: "internal"
        case .prod: "prod"
        }
    }
}

extension EventKind {
    /// The raw value, as text that is written without an allocation.
    var staticName: StaticString {
        switch self {
        case .screen: "screen"
        case .action: "action"
        case .event: "event"
        case .user: "user"
        case .meta: "meta"
        }
    }
}

/// What an operator can do about each outcome, for logs.
extension Outcome {
    package var remedy: String {
        switch self {
        case .skipped(let reason): reason.remedy
        case .fixed: "the provider takes them only like this; the archive has the original values"
        case .held: "the provider takes them once their time has come; if it is wrong, set the clock of their host"
        case .refused(let reason): reason.remedy
        case .quarantined(let reason): reason.remedy
        }
    }
}

extension NotExported {
    fileprivate var remedy: String {
        switch self {
        case .notSubscribed: "the events name other providers"
        case .override: "the events exclude this provider"
        case .kind: "the provider takes no events of their kind"
        case .nothing: "they set nothing that the provider takes"
        case .environment: "the export's env: leaves out their environment"
        case .mapping: "the export's mapping leaves them out"
        }
    }
}

/// The remedies that several reasons share.
package enum Remedy {
    package static let giveID = "let the app give each event an id, a UUID"
    package static let nameThePerson =
        "the provider needs to know who it was: name the source's members with user: and anonymous:, or let the app "
        + "set a user that is not a placeholder and not too long"
    package static let shortenUser = "let the app set a shorter user"
    package static let setClock = "their time is more than a day ahead: set the clock of the app's host"
    package static let sendLess = "let the app send less in one event, or leave members out with a mapping"
    static let reportPoison =
        "reading them ended the program: report it with the version, and take them again after an upgrade"
}

extension QuarantineReason {
    fileprivate var remedy: String {
        switch self {
        case .notJSON, .notObject:
            "each line must be one JSON object: let the program log JSON, one object a line, or take the file out of "
                + "the source"
        case .badUTF8: "let the program write UTF-8"
        case .nul: "let the program write UTF-8 text; it may be UTF-16, a binary file, or a hole that a crash left"
        case .tooLong: "let the program write shorter lines"
        case .empty: "let the program write no empty lines"
        case .badVersion: "update the receiver: the lines are of a later version"
        case .noTime: "name the member that has the time, with time: or --time-member"
        case .badTime:
            "let the time be RFC 3339 or a number of seconds or milliseconds, or name another member with time:"
        case .timeOutOfRange: "correct the clock or the unit of the time: it is not in 2000 to 2099"
        case .noName, .noEnv, .badEnv, .noBundle:
            "lines of a spool come from Waybill's library; ship other files with files: or --glob"
        case .notAllowed: "allow the principal this env and bundle in agents:, or correct the sender"
        case .poison: Remedy.reportPoison
        case .erased: "stop sending events of a person whose events were erased with waybill erase"
        }
    }
}

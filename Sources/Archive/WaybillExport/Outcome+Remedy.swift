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

extension RefusalReason {
    fileprivate var remedy: String {
        switch self {
        case .consent: "these people did not consent to analytics"
        case .unreadable: "correct what writes lines with numbers or text that no JSON reader takes"
        case .poison: "reading them ended the program: report it with the version, and requeue them after an upgrade"
        case .ga4NoAppInstanceID:
            "GA4 takes only events with the app instance of Firebase's SDK (ids.ga4): let the app set it, or leave this "
                + "app out of the export by its env: or a mapping"
        case .ga4TooOld: "GA4 takes events of the last 72 hours: let agents ship sooner, and check the app's clock"
        case .mixpanelNoInsertID, .amplitudeNoInsertID, .segmentNoMessageID, .posthogNoUUID, .snowplowNoEventID:
            "let the app give each event an id, a UUID"
        case .mixpanelBadInsertID: "let the app give each event an id of its own, a UUID"
        case .segmentNoUser, .mixpanelBadID, .amplitudeBadID, .posthogBadID:
            "the provider needs to know who it was: name the source's members with user: and anonymous:, or let the app "
                + "set a user that is not a placeholder and not too long"
        case .ga4BadUserID, .snowplowBadID: "let the app set a shorter user"
        case .mixpanelFuture, .posthogFuture: "their time is more than a day ahead: set the clock of the app's host"
        case .ga4TooLarge, .mixpanelTooLarge, .amplitudeTooLarge, .segmentTooLarge, .posthogTooLarge, .snowplowTooLarge,
            .customTooLarge:
            "let the app send less in one event, or leave members out with a mapping"
        case .customMissing: "give the required column a value in each event, or make the column optional"
        }
    }
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
        case .poison: "reading them ended the program: report it with the version, and requeue them after an upgrade"
        case .erased: "stop sending events of a person whose events were erased with waybill erase"
        }
    }
}

internal import WaybillEvent
internal import WaybillSystem

extension ExportOptions {
    /// A checksum of all options that affect the output; different options start a new part.
    ///
    /// Checkpoints and replays store it, so the text below changes only when the meaning changes. Names are those of
    /// the configuration file; options at their default are omitted, so that a later version with more options computes
    /// the same value.
    package var fingerprint: String {
        Hexadecimal.text(FNV1a.hash(self.canonicalText.utf8), digitCount: 16)
    }

    var canonicalText: String {
        var text = CanonicalOptions()
        text.lines = [
            self.provider.rawValue, self.zone.name, self.mapping?.fingerprint ?? "-", "\(self.mappingVersion)",
        ]
        text.lines += self.environments.environments.map(\.rawValue)
        switch self.provider {
        case .ga4: self.ga4.add(to: &text)
        case .mixpanel, .mixpanelProfiles: self.mixpanel.add(to: &text)
        case .amplitude: text.add("mode", self.amplitude.mode.rawValue, unless: AmplitudeOptions().mode.rawValue)
        case .posthog: text.add("personless", self.posthog.isPersonless, unless: PostHogOptions().isPersonless)
        case .snowplow: text.add("vendor", self.snowplow.vendor ?? "", unless: "")
        case .csv: self.csv.add(to: &text)
        case .syslog: self.syslog.add(to: &text)
        case .journald: self.journald.add(to: &text)
        case .custom: text.lines.append(self.custom?.canonicalText ?? "")
        case .segment, .flurry: break
        }
        return text.lines.joined(separator: "\n")
    }
}

/// The lines of a fingerprint's text.
private struct CanonicalOptions {
    var lines: [String] = []

    mutating func add<Value: Equatable>(_ name: String, _ value: Value, unless usual: Value) {
        if value != usual { self.lines.append("\(name)=\(value)") }
    }
}

extension GA4Options {
    fileprivate func add(to text: inout CanonicalOptions) {
        let usual = GA4Options()
        text.add("too_old", self.tooOld.rawValue, unless: usual.tooOld.rawValue)
        text.add("user_event", self.userEventName, unless: usual.userEventName)
        text.add("device", self.includesDevice, unless: usual.includesDevice)
    }
}

extension MixpanelOptions {
    fileprivate func add(to text: inout CanonicalOptions) {
        let usual = MixpanelOptions()
        text.add("id_merge", self.identityMerge.rawValue, unless: usual.identityMerge.rawValue)
        text.add("screen_event", self.screenEventName, unless: usual.screenEventName)
    }
}

extension CSVOptions {
    fileprivate func add(to text: inout CanonicalOptions) {
        let usual = CSVOptions()
        text.add("bom", self.hasByteOrderMark, unless: usual.hasByteOrderMark)
        text.add("millis", self.hasMilliseconds, unless: usual.hasMilliseconds)
        text.add("zone", self.zone.rawValue, unless: usual.zone.rawValue)
        text.add("others", self.others.rawValue, unless: usual.others.rawValue)
        text.add("users", self.includesUsers, unless: usual.includesUsers)
        text.add("guard", self.isGuarded, unless: usual.isGuarded)
        text.add("id", self.hasID, unless: usual.hasID)
    }
}

extension SyslogOptions {
    fileprivate func add(to text: inout CanonicalOptions) {
        let usual = SyslogOptions()
        text.add("facility", self.facility, unless: usual.facility)
        text.add("host", self.hostName, unless: usual.hostName)
        text.add("element", self.elementName, unless: usual.elementName)
        text.add("max", self.messageByteCountMax, unless: usual.messageByteCountMax)
        text.add("user", self.includesUser, unless: usual.includesUser)
    }
}

extension JournaldOptions {
    fileprivate func add(to text: inout CanonicalOptions) {
        let usual = JournaldOptions()
        text.add("facility", self.facility, unless: usual.facility)
        text.add("user", self.includesUser, unless: usual.includesUser)
    }
}

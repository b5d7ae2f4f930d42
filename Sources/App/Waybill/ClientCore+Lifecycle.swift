internal import WaybillEvent
internal import WaybillSystem

extension ClientCore {
    /// Records install, update and start, if the app enabled it.
    func recordStart(after previous: Install?, _ origin: InstallOrigin) {
        guard self.lifecycle == .recorded else { return }
        if previous == nil, origin == .created {
            self.record(WaybillClient.AppInstalled())
        } else if let previous, previous.version != self.version || previous.build != self.build {
            self.record(WaybillClient.AppUpdated(from: previous.version, build: previous.build))
        }
        self.record(WaybillClient.AppOpened())
    }

    package func enter(_ phase: AppPhase) {
        let now = self.now()
        let before = self.phase.withLock { current in
            defer { if current.phase != phase { current = (phase, now.monotonic) } }
            return current
        }
        if before.phase != phase, self.lifecycle == .recorded {
            switch phase {
            case .background:
                self.record(WaybillClient.AppBackgrounded(after: now.milliseconds(since: before.since)))
            case .foreground:
                self.record(WaybillClient.AppForegrounded(after: now.milliseconds(since: before.since)))
            }
        }
        if before.phase == .background, phase == .foreground {
            self.state.withLock { $0.times.wasUnseen(from: before.since, to: now.monotonic) }
        }
        // A suspended process must not hold a lock on a shared file.
        if phase == .background {
            // Work that becomes due is done before this returns, for the same reason.
            let due = self.state.withLock { state in self.watch(&state) { $0.closeSegment() } }
            self.perform(due) { $0() }
            _ = self.saveConsent()
            self.saveSession()
        }
    }

    private func record(_ event: some Event) {
        _ = self.track { draft, rules, salt in draft.take(event, rules, salt) { _ in } }
    }
}

internal import WaybillSystem

/// When what is kept was last looked at, and what was there.
struct Keeping {
    /// What the writers of spools ask for.
    var keepRequests = KnownKeepRequests()
    /// What was kept at the last look.
    var found = KeptFiles()
    /// The wall clock at the last scan or meeting.
    var seenAt = WallTime.unknown
    /// Whether the next look does not wait until its time has come, because a limit was changed.
    var isDue = true
    private var lookedAt: MonotonicTime?

    /// Whether it is time for a look, which begins then.
    mutating func begins(_ now: MonotonicTime, every interval: Duration) -> Bool {
        if !self.isDue, let lookedAt, now - lookedAt < interval { return false }
        self.isDue = false
        self.lookedAt = now
        return true
    }
}

/// Decides who of a fleet's mergers sends a part, without a clock, a bucket or a file.
///
///     delivery/ga4/prod/<SHA-256>         the first claim           each is created once, if there is none
///     delivery/ga4/prod/<SHA-256>~2       who took it over
///     delivery/ga4/prod/<SHA-256>~3       the last one holds
///     delivery/ga4/prod/<SHA-256>.done    nothing is left to send
///
/// The caller does what ``step`` says and tells the outcome, until it is `.ended`. An answer that was lost needs no care:
/// the next inquiry finds the own name, or another one's.
///
/// Creating is the only decision. A read may be late, so what it finds never lets a merger send that does not hold: of two
/// that create one link the bucket refuses one, and a link never changes or goes.
package struct PartClaim: Hashable, Sendable {
    /// What the caller wants to know.
    package enum Aim: Hashable, Sendable {
        /// Who holds the part; nothing is created.
        case look
        /// To hold it, if it is free.
        case hold
        /// Whether it still holds, with this link.
        case confirm(link: Int)
        /// To hold what a merger of this name holds and has not finished; ``damagedName`` for what cannot be read.
        case takeOver(from: String)
    }

    package enum Step: Hashable, Sendable {
        /// Create the claim with this number, if there is none: ``created()`` or ``present()``.
        case create(link: Int)
        /// Read the claim with this number: ``found(_:)``.
        case read(link: Int)
        /// Read the object `.done`: ``found(done:)``.
        case readDone
        case ended(Outcome)
    }

    package enum Outcome: Hashable, Sendable {
        /// No one holds it.
        case free
        /// This merger sends it. After the first link it is unknown what the former holders sent.
        case held(link: Int)
        /// Another one sends it.
        case elsewhere(ClaimHolder, link: Int)
        /// No one has anything left to send.
        case done(ClaimDone)
        /// It is unknown who holds it: the last link, or `.done` (`nil`), cannot be read.
        case damaged(link: Int?)
    }

    /// Who holds according to the last link that was read.
    private enum Last: Hashable, Sendable {
        case none
        case claim(ClaimHolder)
        case own
        case unreadable
    }

    private enum State: Hashable, Sendable {
        /// Leaves to `.reading` of the same link if it is there, otherwise to `.readingDone` or `.ended`.
        case creating(link: Int)
        /// Leaves to itself with the next link, to `.readingDone` or `.ended`.
        case reading(link: Int, last: Last)
        /// Leaves to `.creating` of the next link for a take-over, otherwise to `.ended`.
        case readingDone(link: Int, last: Last)
        case ended(Outcome)  // Terminal.
    }

    /// The name by which claims are taken over that cannot be read.
    package static let damagedName = "damaged"

    private let aim: Aim
    private let identity: ClaimIdentity
    private var state: State
    /// Whether an object was created for this inquiry.
    package private(set) var hasCreated = false

    /// - Parameter known: a link that was there before, where reading begins.
    package init(_ aim: Aim, as identity: ClaimIdentity, known: Int = 1) {
        self.aim = aim
        self.identity = identity
        switch aim {
        case .look, .takeOver: self.state = .reading(link: known, last: .none)
        case .hold: self.state = .creating(link: 1)
        case .confirm(let link): self.state = .reading(link: link + 1, last: .own)
        }
    }

    package var step: Step {
        switch self.state {
        case .creating(let link): .create(link: link)
        case .reading(let link, _): .read(link: link)
        case .readingDone: .readDone
        case .ended(let outcome): .ended(outcome)
        }
    }

    // MARK: What happened

    /// The claim was created by this call.
    package mutating func created() {
        guard case .creating(let link) = self.state else { preconditionFailure("nothing was to be created") }
        self.hasCreated = true
        // Who held before may have finished in the meantime; before the first link no one held.
        self.state = link == 1 ? .ended(.held(link: 1)) : .readingDone(link: link, last: .own)
    }

    /// There is such a claim: another one's, or one's own whose answer was lost.
    package mutating func present() {
        guard case .creating(let link) = self.state else { preconditionFailure("nothing was to be created") }
        self.state = .reading(link: link, last: .none)
    }

    package mutating func found(_ content: ClaimContent<ClaimHolder>) {
        guard case .reading(let link, let last) = self.state else { preconditionFailure("no claim was to be read") }
        switch content {
        case .present(let holder):
            self.continue(after: link, holder.isOwn(self.identity) ? .own : .claim(holder))
        case .damaged:
            self.continue(after: link, .unreadable)
        case .absent:
            switch (last, self.aim) {
            case (.none, .look), (.none, .takeOver): self.state = .ended(link == 1 ? .free : .damaged(link: link))
            // It was there a moment ago, and no claim is ever deleted.
            case (.none, _): self.state = .ended(.damaged(link: link))
            case (.own, .confirm(let held)) where held == link - 1: self.state = .ended(.held(link: held))
            case (.own, _), (.claim, _), (.unreadable, _): self.state = .readingDone(link: link - 1, last: last)
            }
        }
    }

    private mutating func `continue`(after link: Int, _ last: Last) {
        self.state =
            link < ClaimObject.linkCountMax
            ? .reading(link: link + 1, last: last) : .ended(.damaged(link: link))
    }

    package mutating func found(done content: ClaimContent<ClaimDone>) {
        guard case .readingDone(let link, let last) = self.state else { preconditionFailure("no end was to be read") }
        switch content {
        case .present(let done): self.state = .ended(.done(done))
        case .damaged: self.state = .ended(.damaged(link: nil))
        case .absent:
            switch last {
            case .own: self.state = .ended(.held(link: link))
            case .claim(let holder):
                self.state =
                    self.aim == .takeOver(from: holder.merger)
                    ? .creating(link: link + 1) : .ended(.elsewhere(holder, link: link))
            case .unreadable:
                self.state =
                    self.aim == .takeOver(from: Self.damagedName)
                    ? .creating(link: link + 1) : .ended(.damaged(link: link))
            case .none: preconditionFailure("the end is read after a claim")
            }
        }
    }
}

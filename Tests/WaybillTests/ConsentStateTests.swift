import Testing
import WaybillEvent
import WaybillSystem

@testable import Waybill

private let yes = Consent(analytics: true, ads: true)
private let no = Consent(analytics: false, ads: false)

@Test(
    arguments: [
        (nil, .given, true, false), (nil, .denied, false, false), (nil, .ask, true, true), (yes, .denied, true, false),
        (yes, .ask, true, false), (no, .given, false, false), (no, .ask, false, false),
    ] as [(Consent?, WaybillClient.ConsentDefault, Bool, Bool)])
func `the answer of the install decides, and without one the configuration`(
    answer: Consent?, unanswered: WaybillClient.ConsentDefault, isAllowed: Bool, isAsking: Bool
) {
    let state = ConsentState(answer, or: unanswered)
    #expect(state.answer == answer && state.isAllowed == isAllowed && state.isAsking == isAsking)
}

@Test func `an answer that denies drops only the lines that wait for it`() {
    for (unanswered, answer, isDropping) in [
        (.ask, no, true), (.ask, yes, false), (.given, no, false), (.denied, yes, false),
    ] as [(WaybillClient.ConsentDefault, Consent, Bool)] {
        var state = ConsentState(nil, or: unanswered)
        #expect(state.answered(answer) == isDropping)
        #expect(state.answer == answer && state.isAllowed == answer.analytics && !state.isAsking)
        let dropsAgain = state.answered(no)
        #expect(!dropsAgain)
    }
}

private let origin = MonotonicTime(nanoseconds: 1_000_000_000)

@Test func `a change is unsaved until an attempt that began after it succeeds`() {
    var saving = ConsentSaving(found: nil)
    #expect(!saving.isUnsaved)
    saving.changed(at: origin)
    let first = saving.beginAttempt()
    #expect(saving.isUnsaved && first.isUnsaved)
    saving.changed(at: origin)
    let second = saving.beginAttempt()
    saving.saved(first)
    #expect(saving.isUnsaved)
    saving.saved(second)
    #expect(!saving.isUnsaved)
    saving.saved(first)
    #expect(!saving.isUnsaved && !saving.beginAttempt().isUnsaved)
}

@Test func `a process without a change keeps what is in the file`() {
    var saving = ConsentSaving(found: yes)
    let attempt = saving.beginAttempt()
    #expect(saving.consent(toSave: yes, attempt, found: no) == no)
    #expect(saving.consent(toSave: yes, attempt, found: nil) == nil)
}

@Test func `a late save does not allow what another process denied meanwhile`() {
    var saving = ConsentSaving(found: nil)
    saving.changed(at: origin)
    // At first, the user's last answer is the one given here.
    #expect(saving.consent(toSave: yes, saving.beginAttempt(), found: no) == yes)
    // The file has what it had then.
    #expect(saving.consent(toSave: yes, saving.beginAttempt(), found: no) == yes)
    // Another process changed it since.
    let other = Consent(analytics: true, ads: false)
    #expect(saving.consent(toSave: yes, saving.beginAttempt(), found: other) == other)
    saving.changed(at: origin)
    #expect(saving.consent(toSave: yes, saving.beginAttempt(), found: no) == yes)
}

@Test func `attempts are requested at most once in ten seconds`() {
    var saving = ConsentSaving(found: nil)
    saving.changed(at: origin)
    let counts = [0, 9, 10, 11, 19, 20].map { (seconds: Int64) in
        saving.retry(at: origin + .seconds(seconds))
        return saving.retryCount
    }
    #expect(counts == [0, 0, 1, 1, 1, 2])
}

package memory

import "time"

// maxStep is how far the clock may move against the time that has passed before that counts as a step. Clocks that are
// kept right are set by less.
const maxStep = time.Minute

// now is what the clock tells.
func (m *Memory) now() time.Time {
	now, _ := m.reads.now("")
	return now
}

// Floor returns the time at which every file counts as viewed, whether it was or not; now where Start has not
// succeeded. It changes where memoryd did not run, where the clock was set, and where there were too many views.
func (m *Memory) Floor() time.Time {
	_, floor := m.reads.now("")
	return instant(floor)
}

// now is what the clock tells, and the floor of a namespace at that time. Every time that is stored comes from here, so
// that no file has one of which a step away is not noticed. All is read under the lock, for else two readers could take
// their order for a step.
func (r *reads) now(namespace string) (now time.Time, floor int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now = r.observe()
	if !r.started {
		return now, now.UnixNano()
	}
	return now, max(r.floor, r.missing[namespace])
}

// observe looks at the clock. r.mu is held.
func (r *reads) observe() time.Time {
	now := r.clock()
	at, ran := now.UnixNano(), r.elapsed(now)
	if step := time.Duration(at-r.at) - (ran - r.ran); step.Abs() > maxStep {
		r.setFloor(at)
	}
	r.at, r.ran = at, ran
	return now
}

// setFloor begins anew at a time. What was noted by the clock before may be taken for later than it is.
func (r *reads) setFloor(at int64) {
	r.floor, r.missing = at, nil
	r.noted.Purge()
}

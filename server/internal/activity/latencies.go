package activity

import (
	"math"
	"math/bits"
	"time"
)

// Durations are counted in buckets that are log-linear: those between two powers of two fall into 8 of the same width.
// So the middle of a bucket is within 6.25 % of all that it holds, from a microsecond on; what is shorter is counted to
// 128 ns, and what is longer than 73 minutes as that.
const (
	unitBits   = 7 // of nanoseconds, which are counted as one
	linearBits = 3
	buckets    = 272
)

// latencies are how long a number of calls took.
type latencies struct {
	count   int64
	sum     time.Duration
	max     time.Duration
	buckets [buckets]uint32
}

func (l *latencies) add(d time.Duration) {
	l.count++
	l.sum += d
	l.max = max(l.max, d)
	l.buckets[bucketOf(d)]++
}

func (l *latencies) merge(other *latencies) {
	l.count += other.count
	l.sum += other.sum
	l.max = max(l.max, other.max)
	for i, n := range other.buckets {
		l.buckets[i] += n
	}
}

// quantile returns how long a share q of the calls took at most, 0 < q <= 1; 0 where there are none.
func (l *latencies) quantile(q float64) time.Duration {
	left := int64(math.Ceil(q * float64(l.count)))
	for i, n := range l.buckets {
		if left -= int64(n); left <= 0 && n > 0 {
			return min(middle(i), l.max)
		}
	}
	return l.max
}

func bucketOf(d time.Duration) int {
	units := uint64(max(d, 0)) >> unitBits
	shift := max(bits.Len64(units)-linearBits-1, 0)
	return min(shift<<linearBits+int(units>>shift), buckets-1)
}

// middle returns the middle of a bucket.
func middle(bucket int) time.Duration {
	shift := max(bucket>>linearBits-1, 0)
	units := time.Duration(bucket-shift<<linearBits) << shift
	return units<<unitBits + 1<<(shift+unitBits-1)
}

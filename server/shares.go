package server

import "sync"

// shares bounds how many of something are taken at once: in all, and by each of those who take them. It is safe for
// concurrent use.
type shares[K comparable] struct {
	most, each int

	mu      sync.Mutex
	taken   int
	by      map[K]int        // without those who have none
	refused map[taking]int64 // how often, by why
}

func newShares[K comparable](most, each int) *shares[K] {
	return &shares[K]{most: most, each: max(each, 1), by: map[K]int{}, refused: map[taking]int64{}}
}

// taking is what became of an attempt to take one.
type taking uint8

const (
	took      taking = iota
	noneLeft         // all are taken
	shareUsed        // as many as one may have are taken by who tried
)

// take takes one. The zero value of K is nobody in particular, who may take all.
func (s *shares[K]) take(by K) taking {
	s.mu.Lock()
	defer s.mu.Unlock()
	var nobody K
	switch {
	case s.taken >= s.most:
		s.refused[noneLeft]++
		return noneLeft
	case by != nobody && s.by[by] >= s.each:
		s.refused[shareUsed]++
		return shareUsed
	}
	s.taken++
	if by != nobody {
		s.by[by]++
	}
	return took
}

// count returns how many are taken.
func (s *shares[K]) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.taken)
}

// refusals returns how often take has refused one for a reason.
func (s *shares[K]) refusals(why taking) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[why]
}

// give gives back what take took.
func (s *shares[K]) give(by K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.by[by]--; s.by[by] <= 0 {
		delete(s.by, by)
	}
}

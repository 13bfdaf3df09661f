"""Who has received how much GPU-time, and how much was theirs: two accounts that never mix. Pure.

The *metric* judges afterwards: nobody is entitled to more than was asked for. The *rule* decides
who comes next: what a quota is due whether it is asked for or not.
"""
